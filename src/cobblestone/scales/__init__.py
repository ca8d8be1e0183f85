"""The central service of cross-project scales: collects the exports of projects, publishes the average per plan class.

It knows what every service is, and the documents that projects publish.
"""

from __future__ import annotations
