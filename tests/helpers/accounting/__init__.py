"""A simulation of account managers' accounting: honest people, and every kind of cheat."""
