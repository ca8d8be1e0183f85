"""Many independent runs: on a process pool, or on a Dask cluster when one machine is not enough."""
