"""How fast a host is expected to be, and how long a job will take there."""
