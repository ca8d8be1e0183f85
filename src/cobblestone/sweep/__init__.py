"""Many independent runs: on a process pool, or on a Dask cluster where one machine is not enough."""
