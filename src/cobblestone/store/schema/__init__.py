"""Tables, migrations to them, and copies of a whole database."""
