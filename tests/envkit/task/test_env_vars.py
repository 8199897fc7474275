"""`${VAR}` from the host: what is resolved, what is refused, and that values show up nowhere."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle

import pytest
from pydantic import BaseModel, ConfigDict

from envkit.failure import UserError, capture
from envkit.task import SecretMap, resolve_env, resolve_headers

HOST = {"TOKEN": "s3cr3t-value", "EMPTY": "", "FLAG": "true", "PIN": "12"}


def test_whole_templates_are_replaced_and_text_is_not() -> None:
    resolved = resolve_env(
        {
            "A": "${TOKEN}", "B": "${NONE:-fallback}", "C": "plain", "D": "Bearer ${TOKEN}", "E": "${EMPTY:-x}",
            "F": "${NONE:-}", "G": "${NONE:-a}b}", "H": "$TOKEN",
        },
        HOST,
    )  # fmt: skip
    assert dict(resolved) == {
        "A": "s3cr3t-value", "B": "fallback", "C": "plain", "D": "Bearer ${TOKEN}", "E": "", "F": "", "G": "a}b",
        "H": "$TOKEN",
    }  # fmt: skip


def test_a_missing_variable_is_named_with_the_place_that_needs_it() -> None:
    with pytest.raises(UserError, match=r"\[verifier.env\]: KEY needs the host's environment variable JUDGE_KEY"):
        resolve_env({"KEY": "${JUDGE_KEY}"}, HOST, where="[verifier.env]")


def test_only_values_from_the_host_that_can_be_secrets_are_listed_for_scrubbing() -> None:
    resolved = resolve_env({"A": "${TOKEN}", "B": "${FLAG}", "C": "${PIN}", "D": "${X:-default}", "E": "literal"}, HOST)
    assert resolved.secret_values == {"s3cr3t-value"}


def test_a_value_is_in_no_repr_dump_copy_pickle_or_failure_record() -> None:
    resolved = resolve_env({"KEY": "${TOKEN}"}, HOST)

    class Holder(BaseModel):
        model_config = ConfigDict(frozen=True)
        env: SecretMap

    @dataclasses.dataclass
    class Plain:
        env: SecretMap

    holder = Holder(env=resolved)
    shown = [
        repr(resolved), str(resolved), f"{resolved}", repr(holder), str(holder.model_dump()), holder.model_dump_json(),
        repr(Plain(resolved)), repr(dataclasses.asdict(Plain(resolved))), repr(copy.deepcopy(resolved)),
        repr({"env": resolved}), capture(RuntimeError(f"bad env {resolved!r}")).model_dump_json(),
    ]  # fmt: skip
    assert [text for text in shown if "s3cr3t" in text] == []
    assert holder.model_dump() == {"env": {"KEY": "***"}}
    assert holder.env["KEY"] == "s3cr3t-value"
    with pytest.raises(TypeError):
        json.dumps(resolved)
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(resolved)


def test_maps_are_joined_with_their_secrets() -> None:
    joined = resolve_env({"A": "${TOKEN}", "B": "1"}, HOST).union(resolve_env({"B": "${OTHER}"}, {"OTHER": "second"}))
    assert dict(joined) == {"A": "s3cr3t-value", "B": "second"}
    assert joined.secret_values == {"s3cr3t-value", "second"}


def test_headers_take_templates_inside_the_text() -> None:
    headers = resolve_headers({"Authorization": "Bearer ${TOKEN}", "X": "${NONE:-d}-${TOKEN}"}, HOST)
    assert dict(headers) == {"Authorization": "Bearer s3cr3t-value", "X": "d-s3cr3t-value"}
    assert headers.secret_values == {"s3cr3t-value"}
    with pytest.raises(UserError, match="NONE"):
        resolve_headers({"X": "a ${NONE}"}, HOST)


@pytest.mark.parametrize("env", [{"A": "a\0b"}, {"A=B": "x"}, {"": "x"}, {"A\0": "x"}])
def test_what_no_process_can_be_given_is_refused_in_words(env: dict[str, str]) -> None:
    with pytest.raises(UserError, match=r"\[environment.env\] of p/t"):
        resolve_env(env, HOST, where="[environment.env] of p/t")
