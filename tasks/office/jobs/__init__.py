"""The tasks of each world: instruction, checks with values computed from the facts, and the solution's name."""
