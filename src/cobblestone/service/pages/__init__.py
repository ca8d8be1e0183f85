"""Common parts of the pages of all services: frame, style and scripts, sessions, forms, errors, words for numbers and times.

It knows HTTP and languages; each service brings its own pages.
"""
