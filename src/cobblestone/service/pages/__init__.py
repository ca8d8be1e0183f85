"""What the pages of every service share: frame, style and scripts, sessions, forms, errors, words for numbers and times."""
