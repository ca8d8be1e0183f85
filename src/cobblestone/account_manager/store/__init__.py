"""The tables of an account manager, and all of its SQL."""
