"""The benchmark's tasks: one file a task, grouped by suite. Nothing here knows a model."""
