"""Shared parts of the server: the open project, its roles, what it offers to hosts, and its rules.

It knows the store and the settings; no other room of the server.
"""
