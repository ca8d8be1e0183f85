"""Apps, their versions and files, and signing keys."""
