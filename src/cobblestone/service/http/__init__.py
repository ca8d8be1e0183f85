"""HTTP of a service: connections, bodies of requests, rate limits.

It knows settings and metrics; no page and no protocol of the family.
"""
