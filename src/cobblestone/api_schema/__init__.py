"""The vocabulary of the JSON API: requests and replies, defined once for the server, the Python package and OpenAPI.

Only structs and their bounds, and the endpoints that take and return them.  A request
(:class:`~cobblestone.api_schema.values.Body`, :class:`~cobblestone.api_schema.values.Query`) refuses members that it does
not know; a :class:`~cobblestone.api_schema.values.Reply` ignores them, and a member that is added later has a default, so
that an older and a newer side understand each other.  Times are Unix seconds unless a comment says otherwise.
"""
