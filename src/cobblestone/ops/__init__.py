"""Settings, clock, logging: needed by every shell.

It knows domain; it is the only place that reads the environment.
"""
