"""Results of runs as text, data, pictures and pages; and advice to projects.

It knows runs of one host and of populations.
"""
