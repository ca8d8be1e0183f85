"""What pages are made of: the frame of a page, words for states, drawings, figures kept for a while, feeds.

Knows the core of the server and the pages that all services share; knows no single page.
"""
