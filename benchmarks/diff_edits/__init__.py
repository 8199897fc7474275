"""Single edits for `benchmarks/diff_accuracy.py`: a module per type of file, each with

    SUFFIX: str                                  # "xlsx"
    def samples() -> dict[str, bytes]            # generated files, by name
    EDITS: dict[str, Edit]                       # what is edited -> function(bytes) -> (bytes, expected), or None
    RESAVES: dict[str, Callable[[bytes], bytes]] # optional: other programs' "open and save"
    LOSSES: dict[str, set[str]]                  # optional: by program, kinds of what it does not keep when it saves

`expected` is one pair (kind, where) or a list of them; a `where` of None accepts any place. An edit returns None for a
file that has nothing of its sort. Edits are made by another library than ours, or on the XML.
"""
