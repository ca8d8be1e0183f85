"""What a project exchanges beside the scheduler: accounts, preferences, pages, uploads, signatures, exports.

Knows `text`.
"""
