"""The account manager: one account for all projects, which computer works for which, and what all of them did."""
