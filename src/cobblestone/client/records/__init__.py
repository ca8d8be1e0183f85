"""The client's data directory: its state, its log, its decisions, its measurements.

It knows no project's server, no process and no one who controls the client.
"""
