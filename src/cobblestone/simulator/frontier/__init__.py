"""Two policies on a whole set of scenarios: what the one gains on the other, and where it loses."""
