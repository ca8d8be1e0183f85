"""The next actions of a volunteer's client.  Pure functions.

Policies are families, a room each: `published` (2007), `recent` (today's clients), `own` (ours); all build on `core`.
"""
