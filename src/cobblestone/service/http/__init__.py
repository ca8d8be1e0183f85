"""HTTP at the border of a service: connections, bodies of requests, limits for strangers."""
