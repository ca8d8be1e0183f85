"""The life of a workunit: states as tables, transition rules, deadlines, deletion, purge."""
