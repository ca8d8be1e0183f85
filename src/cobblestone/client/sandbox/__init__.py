"""What keeps jobs within bounds: bubblewrap, an account of their own, control groups, resource limits."""
