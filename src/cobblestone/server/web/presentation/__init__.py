"""Parts of pages: the frame of a page, words for states, charts, cached figures, feeds.

Knows the core of the server and the pages that all services share; knows no single page.
"""
