"""Audits: each way in which re-rendering would have changed a token is found, and told by its cause."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from envkit.messages import Message, Observation, ObservationKind
from envkit.tokens import Trace, export
from envkit.tokens.audit import Cause, audit, logprob_gap
from envkit.tokens.conversation import BranchWarning, Conversation

pytestmark = pytest.mark.tokens

USER = Message(role="user", content="Go.")


def played(renderer: Any, *answers: list[int], then: tuple[Message, ...] = ()) -> Trace:
    trace = Trace()
    talk = Conversation(renderer, trace)
    turn = talk.observe(Observation(messages=(USER,)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BranchWarning)
        for number, ids in enumerate(answers):
            talk.record(turn, ids, [-0.1] * len(ids), [0] * len(ids), finish="stop")
            if number + 1 < len(answers) or then:
                result = Message(role="tool", content=f"result number {number}", tool_call_id="c", name="read")
                turn = talk.observe(Observation(messages=then or (result,)))
    return trace


def test_a_conversation_that_renders_as_it_was_sampled_has_no_drift(
    renderers_by_name: dict[str, Any], tokenizer: Any
) -> None:
    ids = tokenizer.encode("fine<|im_end|>", add_special_tokens=False)
    report = audit(played(renderers_by_name["template:chatml"], ids, ids, ids), renderers_by_name["template:chatml"])
    assert report.drifts == ()
    assert report.sampled_tokens == 3 * len(ids)


def test_the_same_text_as_other_ids_is_retokenised(renderers_by_name: dict[str, Any], tokenizer: Any) -> None:
    stop = tokenizer.convert_tokens_to_ids("<|im_end|>")
    odd = [i for c in "return" for i in tokenizer.encode(c, add_special_tokens=False)]
    assert odd != tokenizer.encode("return", add_special_tokens=False)
    trace = played(renderers_by_name["template:chatml"], [*odd, stop], [*odd, stop])
    report = audit(trace, renderers_by_name["template:chatml"])
    assert [(d.cause, d.node, d.sampled) for d in report.drifts] == [
        (Cause.RETOKENISED, 1, True),
        (Cause.RETOKENISED, 3, True),
    ]
    assert report.drifts[0].at == trace.node(1).start
    assert report.drifts[0].actual == report.drifts[0].rendered


@pytest.mark.parametrize("name", ["qwen3", "template:pythonic"])
def test_what_the_template_writes_differently_is_retemplated_and_found_turn_by_turn(
    name: str, renderers_by_name: dict[str, Any], tokenizer: Any
) -> None:
    said = '<tool_call>\n{"arguments":{"all":false,   "path":"a"},"name":"read"}\n</tool_call><|im_end|>'
    if name == "qwen3":
        said = "<think>\nhm\n</think>\n\n" + said
    ids = tokenizer.encode(said, add_special_tokens=False)
    trace = played(renderers_by_name[name], ids, ids, ids)
    report = audit(trace, renderers_by_name[name])
    assert [(d.cause, d.node, d.sampled) for d in report.drifts] == [
        (Cause.RETEMPLATED, 1, True),
        (Cause.RETEMPLATED, 3, True),
    ], "each turn by itself: one difference does not hide the next"
    assert "all" in report.drifts[0].actual


def test_rewritten_histories_are_named_with_their_reason(renderers_by_name: dict[str, Any], tokenizer: Any) -> None:
    renderer = renderers_by_name["template:chatml"]
    trace = played(renderer, tokenizer.encode("one<|im_end|>", add_special_tokens=False))
    talk = Conversation(renderer, Trace())
    turn = talk.observe(Observation(messages=(USER,)))
    ids = tokenizer.encode("one<|im_end|>", add_special_tokens=False)
    talk.record(turn, ids, [-0.1] * len(ids), [0] * len(ids), finish="stop")
    talk.observe(Observation(kind=ObservationKind.REWRITE, messages=(Message(role="user", content="Summary: one."),)))
    report = audit(talk.trace, renderer)
    assert report.counts == {"rewritten": 1}
    assert report.drifts[0].note == "the agent rewrote its history"
    assert audit(trace, renderer).counts == {}


def test_the_logprob_gap_counts_only_what_was_sampled_by_that_version() -> None:
    trace = Trace()
    context = trace.add_context([1, 2], [USER])
    from envkit.messages import AssistantMessage

    trace.add_sampled(context.index, AssistantMessage(), [3, 4], [-1.0, -2.0], [5, 6], finish="stop")
    samples = export(trace).samples

    def score(ids: Any) -> Any:
        return np.array([-9.0, -1.5, -2.0], np.float32)

    every = logprob_gap(samples, score)
    assert (every.tokens, every.mean, every.largest) == (2, 0.25, 0.5)
    assert logprob_gap(samples, score, version=6).mean == 0.0
    assert logprob_gap(samples, score, version=7).tokens == 0
