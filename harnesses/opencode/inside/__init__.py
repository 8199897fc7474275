"""Code that runs inside the sandbox: standard library only, Python 3.8 or newer, one module per concern.

Nothing here is imported by the harness to do its work; `envkit.harnesses.opencode.bundle` ships the sources inside.
Importing them on the host is for tests of the pure parts.
"""
