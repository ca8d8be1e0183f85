"""The credit laboratory: replaying job logs, and credit systems side by side."""
