"""Which names hold secrets: enough that none gets into results, and not so many that results are spoilt."""

from __future__ import annotations

import pytest

from envkit.trial.secrets import is_secret_name, scrubber


@pytest.mark.parametrize(
    "name",
    ["OPENAI_API_KEY", "HF_TOKEN", "api_key", "api_keys", "apikey", "DB_PASSWORD", "AWS_SECRET_ACCESS_KEY",
     "authorization", "GH_TOKEN", "x-api-key", "CLIENT_SECRET", "bearer"],
)  # fmt: skip
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    ["max_tokens", "prompt_tokens", "MAX_TOKENS", "PWD", "OLDPWD", "api_key_env", "SSH_KEY_PATH", "KEYBOARD", "monkey",
     "PUBLIC_KEY", "model", "HOME", "tokenizer", "TOKEN_URL"],
)  # fmt: skip
def test_names_of_other_things(name: str) -> None:
    assert not is_secret_name(name)


def test_values_are_found_anywhere_in_options_but_references_are_not_secrets() -> None:
    clean = scrubber(
        {"endpoints": [{"url": "http://here", "headers": {"authorization": "Bearer abcdefgh"}}]},
        {"api_keys": ["k-1234567"]},
        {"api_key": "${SOME_VARIABLE}"},
    )
    text = clean.scrub_text("http://here Bearer abcdefgh k-1234567 ${SOME_VARIABLE}")
    assert text == "http://here [scrubbed] [scrubbed] ${SOME_VARIABLE}"
