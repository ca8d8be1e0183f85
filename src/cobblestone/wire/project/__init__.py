"""A project's exchanges besides the scheduler: accounts, preferences, pages, uploads, signatures, exports.

Knows `text`.
"""
