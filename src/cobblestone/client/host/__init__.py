"""What the client finds out about its computer: hardware, users, power, heat, load and network."""
