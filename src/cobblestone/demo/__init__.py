"""A whole project on one machine: server, two unmodified clients, the sunspot example.

It knows every service and the Python package, and starts them as a user would.
"""
