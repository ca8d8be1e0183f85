"""Parts shared by all long-running services: HTTP, languages, health, limits, sign-in, backups; independent of projects.

It knows ops and the store's engine and maintenance; no project.
"""
