"""Commands for the other services: account managers, statistics sites, cross-project scales.

It knows how a project is kept sound, as these services are kept so too.
"""
