"""The account manager: one account for all projects, which computer works for which, and what all of them did.

``store`` has its SQL, ``core`` what all parts share, ``web`` its pages; daemons, API and upkeep stand above.
"""
