"""Care of a whole database, whatever its schema: upgrade it, copy it, dump it, move it to PostgreSQL.

It knows ``engine`` only.
"""
