"""The credit laboratory: replay of job logs, and comparison of credit systems."""
