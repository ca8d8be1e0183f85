"""What every room of the server needs: the open project, its roles, what it offers to hosts, and its rules."""
