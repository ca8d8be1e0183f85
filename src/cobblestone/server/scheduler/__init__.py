"""The scheduler RPC: a client's report and request in, jobs and messages out.

It knows the core, the dispatch policies and wire; no page and no daemon.
"""
