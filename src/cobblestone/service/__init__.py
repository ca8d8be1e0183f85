"""What every long-running service shares: HTTP at the border, languages, health, limits, sign-in; it knows no project."""
