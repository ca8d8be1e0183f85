"""HTTP of a service: connections, and bodies of requests.

It knows settings and metrics; no page and no protocol of the family.
"""
