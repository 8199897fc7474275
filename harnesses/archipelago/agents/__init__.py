"""The two agents of the Archipelago harness: `loop` and `toolbelt`."""
