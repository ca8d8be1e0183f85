"""Parts shared by all long-running services: HTTP, languages, health, limits, sign-in, backups; independent of projects."""
