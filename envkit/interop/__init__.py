"""Our tasks and harnesses in other people's frameworks, and theirs in ours. Each part needs the other's package.

`verifiers_env` serves tasks as an environment of `verifiers` (and so of prime-rl).
"""
