"""The tables of a project, and the migrations to them."""
