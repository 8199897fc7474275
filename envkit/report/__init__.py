"""Reports: what many trials come to."""
