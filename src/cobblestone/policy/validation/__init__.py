"""Agreement of outputs, the canonical result, adaptive replication."""
