"""The volunteer's files: preferences, overrides and configuration, read again when they change."""
