"""These tests need the `torch` extra; `make test-torch` installs it into an environment of its own and runs them."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("torch") and find_spec("transformers") else ["*"]
