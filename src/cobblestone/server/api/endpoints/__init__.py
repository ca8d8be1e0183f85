"""The endpoints of the JSON API: declaration, dispatch of calls, and description.

Knows the core of the server and what all JSON APIs share; knows no single endpoint.
"""
