"""`python -m envkit.harnesses.opencode_cli`: gets the pinned OpenCode and prints where it is."""

from envkit.harnesses.opencode_cli.install import install

print(install())
