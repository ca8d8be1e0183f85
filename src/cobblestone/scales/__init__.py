"""The central service of cross-project scales: collects what projects export, publishes the average per plan class."""

from __future__ import annotations
