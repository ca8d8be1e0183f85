"""What an account manager decides: which computer works for which project, and what is counted of what computers report."""
