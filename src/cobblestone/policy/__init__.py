"""What should happen: functions on domain values.  Pure: time and randomness are arguments."""
