"""The volunteer's side: a daemon that computes for any BOINC project."""
