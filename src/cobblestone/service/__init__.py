"""What every long-running service shares: HTTP, languages, health, limits, sign-in, backups; it knows no project."""
