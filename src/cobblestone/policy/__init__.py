"""Decisions: functions on domain values.  Pure: time and randomness are arguments.

It knows domain; no clock, file, socket, database or library.
"""
