"""The page of a collector: HTML that the server writes, which needs no network besides it."""
