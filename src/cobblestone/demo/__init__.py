"""A whole project on one machine: server, two unmodified clients, the sunspot example."""
