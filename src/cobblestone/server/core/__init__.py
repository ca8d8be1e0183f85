"""Shared parts of the server: the open project, its roles, what it offers to hosts, and its rules."""
