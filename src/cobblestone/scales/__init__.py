"""The central service of cross-project scales: collects the exports of projects, publishes the average per plan class."""

from __future__ import annotations
