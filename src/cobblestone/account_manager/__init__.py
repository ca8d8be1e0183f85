"""The account manager: one account for all projects, the choice of projects for each computer, and its accounting.

``store`` has its SQL, ``core`` what all parts share, ``web`` its pages; daemons, API and upkeep stand above.
"""
