"""The project server: thin shells around policy, and the daemons."""
