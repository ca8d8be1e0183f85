"""Settings, clock, logging: what every shell needs."""
