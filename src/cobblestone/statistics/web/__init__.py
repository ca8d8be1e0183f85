"""The pages of the statistics site.

It knows the store's questions and the pages of every service.
"""

from __future__ import annotations
