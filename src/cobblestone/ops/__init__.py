"""Settings, clock, logging: needed by every shell.

It knows domain and the names of scheduling policies; it is the only place that reads the environment.
"""
