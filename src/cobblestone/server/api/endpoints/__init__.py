"""How endpoints of the JSON API declare themselves, how calls reach them, and how they are described.

Knows the core of the server and what all JSON APIs share; knows no single endpoint.
"""
