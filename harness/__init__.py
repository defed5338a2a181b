"""Readhead's engine: it trains, scores, verifies and publishes; it knows no task and no model by name.

Every command is a function of ``harness.api``.
"""

__version__ = "0.1.0"
