"""Many independent runs: on a process pool, or on a Dask cluster when one machine is not enough.

It knows neither the simulator nor the lab: functions and their arguments come from outside.
"""
