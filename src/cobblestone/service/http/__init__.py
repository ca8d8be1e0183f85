"""HTTP of a service: connections, bodies of requests, rate limits."""
