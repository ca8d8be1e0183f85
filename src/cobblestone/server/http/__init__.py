"""What surrounds every HTTP request of a project, and how its server ends."""
