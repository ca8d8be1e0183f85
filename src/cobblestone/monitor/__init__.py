"""The terminal display of a client; needs the extra ``tui``."""
