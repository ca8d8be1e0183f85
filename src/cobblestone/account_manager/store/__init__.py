"""The tables of an account manager, and all of its SQL.

It knows the values of ``model`` only.
"""
