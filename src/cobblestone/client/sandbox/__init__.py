"""What keeps jobs within bounds: bubblewrap, an account of their own, control groups, resource limits, containers.

It knows processes and files, and nothing of tasks or projects.
"""
