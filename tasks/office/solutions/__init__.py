"""Oracle solutions: scripts that do the work from the files alone, as a person with Python would.

They run inside a sandbox as `/solution/solve.py`, next to a copy of `reading.py`; nothing in the pack imports them.
"""
