"""Decisions: functions on domain values.  Pure: time and randomness are arguments."""
