"""Model configurations that come along, as numbers: `read_shape` finds them by name."""
