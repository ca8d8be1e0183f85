"""Common parts of the pages of all services: frame, style and scripts, sessions, forms, errors, words for numbers and times."""
