"""Many hosts that share the jobs of their projects.

It knows one host and its compiled form, and the server's policies.
"""
