"""The command line: `envkit tasks|run|eval|check|doctor|gc`."""
