"""The tables of a project, and the migrations to them.

It knows the engine and the upgrade machinery; the verbs of rows do not know it.
"""
