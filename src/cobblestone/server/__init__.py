"""The project server: thin shells around policy, grouped by topic.

``app``, ``run`` and ``in_process`` compose it; ``scheduler``, ``files``, ``accounts``, ``credit`` and ``daemons`` do the work of
a project; ``api`` and ``web`` are its faces to programs and people; ``operation`` is its operator's; ``core`` is what they share.
"""
