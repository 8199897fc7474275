"""What every sandbox provider must do, as tests: `pytest --envkit-provider NAME --pyargs envkit.sandbox.contract`.

NAME is a registered provider or `module:Class`, with options as on the command line (`docker:image=NAME`). The suite
ships with envkit, so that a third party's provider is held to what ours are. A provider says what it can't do in its
`Capabilities`; tests of that, and only those, are skipped.
"""
