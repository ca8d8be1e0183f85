"""Files of jobs: uploads and downloads, signatures of app files, exports for statistics sites.

Knows the core of the server; knows no daemon and no page.
"""
