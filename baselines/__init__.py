"""The models of the series, one file each, and their recipes. Nothing here knows a task."""
