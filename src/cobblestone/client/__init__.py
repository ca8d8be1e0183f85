"""The volunteer's side: a daemon that computes for any project of the family."""
