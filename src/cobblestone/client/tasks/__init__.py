"""Running jobs: slots, the shared segment, processes, and what their ends mean."""
