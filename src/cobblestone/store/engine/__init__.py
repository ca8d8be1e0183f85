"""Two databases behind one protocol, the group-committing writer, and the processes that share a database.

It knows no table of any schema.
"""
