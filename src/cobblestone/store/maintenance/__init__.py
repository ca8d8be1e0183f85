"""Maintenance of a whole database with any schema: upgrade, copy, dump, move to PostgreSQL.

It knows ``engine`` only.
"""
