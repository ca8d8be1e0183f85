"""The scheduler RPC: a client's report and request in, jobs and messages out."""
