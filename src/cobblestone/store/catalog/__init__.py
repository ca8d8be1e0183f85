"""The project's offer: apps, their versions, signing keys, and the file store.

It knows ``engine`` only.
"""
