"""Single edits for `benchmarks/diff_accuracy.py`: a module per type of file, each with

    SUFFIX: str                                  # "xlsx"
    def samples() -> dict[str, bytes]            # by name: generated files, and those of the corpus
    EDITS: dict[str, Edit]                       # what is edited -> function(bytes) -> (bytes, expected), or None
    RESAVES: dict[str, Callable[[bytes], bytes | None]]  # optional: other programs' "open and save"
    BATCHES: dict[str, Callable[[Sequence[bytes], str], list[bytes | None]]]  # optional: those that take many at once
    LOSSES: dict[str, tuple[Loss, ...]]          # optional: by program, what it does not keep when it saves

`expected` is one pair (kind, where) or a list of them; a `where` of None accepts any place. An edit returns None for a
file that has nothing of its sort. Edits are made by another library than ours, or on the XML. A re-save gives None for
a file that the program can't open or save.
"""
