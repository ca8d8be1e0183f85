"""The tools that scientists use already, on volunteers' computers.

``joblib_backend`` is joblib's backend, and ``cobblestone_call`` what it runs there.  Snakemake finds its plugin by its name,
``snakemake_executor_plugin_cobblestone``, beside this package.  Each needs the extra of its name.
"""
