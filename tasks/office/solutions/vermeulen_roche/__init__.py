"""Solutions of the tasks of one world."""
