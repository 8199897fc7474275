"""The secret of the tests' viewer."""

TOKEN = "a-token-of-the-tests"
