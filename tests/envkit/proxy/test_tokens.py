"""Agents at random through the thread book and the token trace: every sampled token is exported exactly once, and a
prompt holds what was sampled as it was sampled."""

from __future__ import annotations

import importlib.util
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envkit.messages import AssistantMessage, Message, ToolSpec
from envkit.proxy import ModelRequest, ThreadBook
from envkit.tokens import Trace, export
from envkit.tokens.conversation import Conversation
from envkit.tokens.render import load_renderer

pytestmark = pytest.mark.tokens

TOOLS = (ToolSpec(name="read", description="", parameters={"type": "object", "properties": {}}),)
SYSTEM = Message(role="system", content="You work.")
SAID = [
    "I look.<|im_end|>",
    '<tool_call>{"arguments":{},  "name": "read"}</tool_call><|im_end|>',
    "<|im_end|>",
    "cut sh",
]


@pytest.fixture(scope="module")
def parts() -> Any:
    path = Path(__file__).parents[1] / "tokens" / "conftest.py"
    spec = importlib.util.spec_from_file_location("token_parts_for_proxy", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    tokenizer = module.wrap(module.train(), template=module.CHATML)
    return tokenizer, load_renderer(tokenizer, "template", {"stop_tokens": ["<|im_end|>"]})


@given(data=st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_sampled_token_is_exported_exactly_once(parts: Any, data: st.DataObject) -> None:
    tokenizer, renderer = parts
    book, talk = ThreadBook(), Conversation(renderer, Trace())
    talks: list[list[Any]] = []
    sampled = 0
    for number in range(data.draw(st.integers(1, 8))):
        what = data.draw(st.sampled_from(["new", "on", "on", "on", "edit", "fork", "drop", "split"]))
        if what == "new" or not talks:
            talks.append([SYSTEM, Message(role="user", content=data.draw(st.sampled_from("abc")))])
        told = data.draw(st.sampled_from(talks))
        if what == "edit":
            at = data.draw(st.integers(0, len(told) - 1))
            if isinstance(told[at], Message):
                told[at] = told[at].model_copy(update={"content": "edited"})
        elif what == "fork":
            told = [*told[: data.draw(st.integers(1, len(told)))], Message(role="user", content="else")]
            talks.append(told)
        elif what == "drop":
            told[:] = [m for m in told if not isinstance(m, AssistantMessage) or m.text or m.tool_calls]
        elif what == "split":
            told[:] = [part for m in told for part in _split(m)]
        if isinstance(told[-1], AssistantMessage):
            told.append(Message(role="user", content=f"more {number}"))
        tools = TOOLS if data.draw(st.booleans()) else ()
        observation = book.observe(ModelRequest(messages=tuple(told), tools=tools, stream=False, model="m"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            turn = talk.observe(observation)
        # What is sent is the path as it is recorded: nothing sampled before is written anew within it.
        assert turn.prompt.array().tolist() == talk.trace.ids(turn.node.index).tolist()
        ids = tokenizer.encode(data.draw(st.sampled_from(SAID)), add_special_tokens=False)
        sampled += len(ids)
        answer = talk.record(turn, ids, [-0.5] * len(ids), [0] * len(ids), finish="stop")
        book.replied(observation.thread, answer)
        told.append(answer)
        told.extend(Message(role="tool", content="ok", tool_call_id=c.id) for c in answer.tool_calls)
    out = export(talk.trace)
    assert out.sampled == out.delivered == sampled
    assert not out.dropped


def _split(message: Any) -> list[Any]:
    if isinstance(message, AssistantMessage) and message.text and message.tool_calls:
        return [AssistantMessage(text=message.text), AssistantMessage(tool_calls=message.tool_calls)]
    return [message]
