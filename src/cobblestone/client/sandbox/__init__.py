"""Confinement of jobs: bubblewrap, a separate account, control groups, resource limits, containers.

It knows processes and files, and nothing of tasks or projects.
"""
