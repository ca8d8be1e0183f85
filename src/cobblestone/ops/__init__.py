"""Settings, clock, logging: needed by every shell."""
