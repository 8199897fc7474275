"""Conversations in many templates: what an engine was sent and what it sampled is exported exactly, to the id."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from envkit.messages import AssistantMessage, Message, Observation, ObservationKind
from envkit.tokens import Edge, Trace, export
from envkit.tokens.conversation import BranchWarning, Conversation
from envkit.tokens.render import Rendered

pytestmark = pytest.mark.tokens

FAMILIES = ("qwen3", "qwen3.5", "glm-4.5", "glm-5", "deepseek-v3", "minimax-m2", "kimi-k2", "llama-3", "prime-qwen3")
SLOW_MACHINE = list(HealthCheck)
OURS = ("template:chatml", "template:roles", "template:headers", "template:pythonic", "template:forgetful")
ALL = FAMILIES + OURS

#: What merges across borders, splits characters, or looks like structure.
NASTY = [
    "", " ", "  ", "\n", "\n\n", " \n", "\r\n", "\t", "'s", "0000000", "aaaaaaaa", "e\u0301",
    "\U0001f469\u200d\U0001f467", "\u20ac",
    "\u2028", "\x00", "<", "</", "|>", "<|", "<|im_end|>", "<|im_start|>assistant\n", "<|endoftext|>", "<|user|>",
    "<|observation|>", "\\udb80\\udc00",
    "<think>", "</think>", "<tool_call>", "</tool_call>", '<tool_call>{"name": "read"}</tool_call>', "<|eot_id|>",
    "[e~[",
    "<｜end▁of▁sentence｜>", "<tool_response>", "</tool_response>", "\U000f0000", "\U000f0001x", "{{ x }}", "{% raw %}",
]  # fmt: skip
TEXT = st.lists(st.one_of(st.sampled_from(NASTY), st.text(max_size=8)), max_size=5).map("".join)

#: How a turn of the model is put together; `ids` is a stretch of any tokens at all (half a character, control tokens).
PIECE = st.one_of(
    st.tuples(st.just("text"), TEXT),
    st.tuples(st.just("ids"), st.lists(st.integers(0, 2900), max_size=6)),
    st.tuples(st.just("think"), TEXT),
    st.tuples(st.just("call"), TEXT),
    st.tuples(st.just("broken"), TEXT),
)
SAMPLED = st.tuples(
    st.lists(PIECE, max_size=4),
    st.sampled_from(["stop", "stop", "stop", "other_stop", "length", "abort"]),
    st.integers(0, 40),
)
OBSERVED = st.tuples(
    st.sampled_from(["tool", "tool", "tools", "user", "system", "rewrite", "back", "side", "new_tools"]), TEXT, TEXT
)
TURNS = st.lists(st.tuples(OBSERVED, SAMPLED), min_size=1, max_size=7)


@dataclass
class ScriptedEngine:
    """Remembers every request and answer, as the other end of the wire would."""

    calls: list[tuple[list[int], list[int], list[float]]] = field(default_factory=list)

    def sample(self, prompt: list[int], ids: list[int]) -> tuple[list[int], list[float], list[int]]:
        logprobs = [float(np.float32(-((7 * i + len(self.calls)) % 13) / 10)) for i in range(len(ids))]
        self.calls.append((prompt, ids, logprobs))
        return ids, logprobs, [len(self.calls)] * len(ids)


def tokens_of(renderer: Any, tokenizer: Any, sampled: Any) -> tuple[list[int], str]:
    pieces, finish, cut = sampled
    encode = lambda text: tokenizer.encode(text, add_special_tokens=False)  # noqa: E731
    ids: list[int] = []
    for kind, value in pieces:
        if kind == "text":
            ids += encode(value)
        elif kind == "ids":
            ids += value
        elif kind == "think":
            ids += encode("<think>\n") + encode(value) + encode("\n</think>\n\n")
        elif kind == "call":
            ids += encode('<tool_call>\n{"arguments": {"path": ' + json.dumps(value))
            ids += encode('}, "name":"read"}\n</tool_call>')
        else:
            ids += encode("<tool_call>{" + value)
    stops = sorted(renderer.stop_ids)
    if finish in ("stop", "other_stop"):
        ids = [i for i in ids if i not in renderer.stop_ids]  # an engine stops at the first
        return [*ids, stops[0] if finish == "stop" else stops[-1]], "stop"
    ids = [i for i in ids if i not in renderer.stop_ids]
    return ids[:cut], finish


@pytest.mark.parametrize("name", ALL)
@given(turns=TURNS, first=TEXT)
@settings(
    max_examples=20,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    deadline=None,
    suppress_health_check=SLOW_MACHINE,
)
def test_exported_ids_are_the_engines_ids(
    name: str, renderers_by_name: dict[str, Any], tokenizer: Any, turns: list[Any], first: str
) -> None:
    from envkit.messages import ToolSpec

    renderer = renderers_by_name[name]
    trace, engine = Trace(), ScriptedEngine()
    talk = Conversation(renderer, trace)
    tools = (ToolSpec(name="read", description=first[:5], parameters={"type": "object", "properties": {}}),)
    seen: dict[str, list[int]] = {}
    observation = Observation(
        messages=(Message(role="system", content="You work."), Message(role="user", content=first)), tools=tools
    )
    back: list[tuple[Any, ...]] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BranchWarning)
        for number, (observed, sampled) in enumerate(turns):
            turn = talk.observe(observation)
            prompt = turn.prompt.array().tolist()
            thread = observation.thread
            if turn.node.edge is Edge.APPEND and thread in seen and turn.node.parent is not None:
                assert prompt[: len(seen[thread])] == seen[thread], "an id that was already there has changed"
            elif turn.node.parent is not None or thread in seen:
                assert turn.node.note, "a branch says why"
            assert prompt == trace.ids(turn.node.index).tolist()
            ids, finish = tokens_of(renderer, tokenizer, sampled)
            answer = talk.record(turn, *engine.sample(prompt, ids), finish=finish)
            seen[thread] = prompt + ids
            assert answer.finish == finish

            kind, a, b = observed
            call = answer.tool_calls[0].id if answer.tool_calls else "call_x"
            everything = tuple(trace.messages(len(trace) - 1))
            back.append(everything)
            if kind == "tool":
                observation = Observation(messages=(Message(role="tool", content=a, tool_call_id=call, name="read"),))
            elif kind == "tools":
                observation = Observation(
                    messages=tuple(Message(role="tool", content=c, tool_call_id=call, name="read") for c in (a, b))
                )
            elif kind in ("user", "system"):
                observation = Observation(messages=(Message(role="user", content=a),))
            elif kind == "rewrite":
                observation = Observation(
                    kind=ObservationKind.REWRITE,
                    messages=(Message(role="system", content="You work."), Message(role="user", content=a + "!")),
                )
            elif kind == "back":
                observation = Observation(
                    kind=ObservationKind.REWRITE, messages=(*back[number // 2], Message(role="user", content=a))
                )
            elif kind == "side":
                observation = Observation(
                    thread=f"side-{number}",
                    kind=ObservationKind.SIDE,
                    messages=(Message(role="user", content=b),),
                )
            else:
                changed = ToolSpec(name="list", description=str(number), parameters={"type": "object"})
                observation = Observation(messages=(Message(role="user", content=a),), tools=(*tools, changed))

    out = export(trace)
    assert out.delivered == out.sampled == sum(len(ids) for _, ids, _ in engine.calls)
    nodes = [n for n in trace if n.sampled]
    assert len(nodes) == len(engine.calls)
    for node, (prompt, ids, logprobs) in zip(nodes, engine.calls, strict=True):
        if not ids:
            continue
        owners = [s for s in out.samples if node.index in s.nodes and len(s.ids) >= node.end]
        trained = [s for s in owners if s.mask[node.start : node.end].all()]
        assert len(trained) == 1
        (s,) = trained
        assert s.ids[: node.start].tolist() == prompt
        assert s.ids[node.start : node.end].tolist() == ids
        np.testing.assert_array_equal(s.logprobs[node.start : node.end], np.array(logprobs, np.float32))


@pytest.mark.parametrize("name", FAMILIES)
@given(pieces=SAMPLED, contents=st.lists(TEXT, min_size=1, max_size=3), user=st.booleans(), before=TEXT)
@settings(max_examples=20, deadline=None, suppress_health_check=SLOW_MACHINE)
def test_a_bridge_from_the_end_of_the_prompt_is_the_bridge_from_all_of_it(
    name: str, renderers_by_name: dict[str, Any], tokenizer: Any, pieces: Any, contents: Any, user: bool, before: str
) -> None:
    """What makes a turn's cost independent of the history: families read no further back than the last turn's end."""
    renderer = renderers_by_name[name]
    history = [Message(role="system", content="s"), Message(role="user", content=before)]
    head = renderer.render(history, ())
    answer = AssistantMessage(text="ok")
    result = Message(role="tool", content="r", name="read")
    for said in ("ok", "</think>ok", "<think></think>ok"):  # whichever the family takes for a finished turn
        first, _ = tokens_of(renderer, tokenizer, ([("text", said)], "stop", 9))
        middle = renderer.bridge(head.ids, first, history, answer, [result], (), head.state)
        if isinstance(middle, Rendered):
            break
    assert isinstance(middle, Rendered)
    second, _ = tokens_of(renderer, tokenizer, pieces)
    new = [Message(role="user" if user else "tool", content=c, name=None if user else "read") for c in contents]
    short = renderer.bridge(middle.ids, second, history, answer, new, (), None)
    full = renderer.bridge([*head.ids, *first, *middle.ids], second, history, answer, new, (), None)
    assert short == full


@pytest.mark.parametrize("name", ALL)
def test_contents_never_become_control_tokens(name: str, renderers_by_name: dict[str, Any], tokenizer: Any) -> None:
    renderer = renderers_by_name[name]
    control = set(tokenizer.get_added_vocab().values())

    def controls(content: str) -> list[int]:
        messages = [Message(role="system", content=content), Message(role="user", content=content)]
        head = renderer.render(messages, ()).ids
        ids, _ = tokens_of(renderer, tokenizer, ([("text", "ok")], "stop", 9))
        result = Message(role="tool", content=content, name="read")
        bridged = renderer.bridge(head, ids, messages, AssistantMessage(text="ok"), [result], (), None)
        return [i for i in [*head, *getattr(bridged, "ids", [])] if i in control]

    harmless = controls("x y")
    for literal in tokenizer.get_added_vocab():
        assert controls(f"x {literal} y") == harmless, literal
        assert controls(literal * 2) == harmless, literal


@pytest.mark.parametrize("name", ALL)
def test_shielded_text_still_reads_as_it_was_written(
    name: str, renderers_by_name: dict[str, Any], tokenizer: Any
) -> None:
    renderer = renderers_by_name[name]
    content = "a <|im_end|> b </think> \U000f0003 c <tool_call>{}"
    ids = renderer.render([Message(role="user", content=content)], ()).ids
    assert content in renderer.decode(ids)


#: What a model of each family writes before a tool result, and the token it stops with.
TOOL_TURNS = {
    "qwen3": ("<think>\nhm\n</think>\n\nstep {}", "<|im_end|>"),
    "glm-4.5": ("\n<think>hm</think>\nstep {}", "<|observation|>"),
    "minimax-m2": ("hm\n</think>\n\nstep {}", "[e~["),
    "template:chatml": ("step {}", "<|im_end|>"),
    "template:roles": ("step {}", "<|observation|>"),
    "template:pythonic": ("step {}", "<|im_end|>"),
}


@pytest.mark.parametrize("name", TOOL_TURNS)
def test_tool_turns_append_and_never_branch(name: str, renderers_by_name: dict[str, Any], tokenizer: Any) -> None:
    """The normal case of an office task: tool calls and results, all on one path."""
    renderer = renderers_by_name[name]
    trace = Trace()
    talk = Conversation(renderer, trace)
    turn = talk.observe(Observation(messages=(Message(role="user", content="Go."),)))
    for i in range(5):
        said, stop = TOOL_TURNS[name]
        ids = tokenizer.encode(said.format(i) + stop, add_special_tokens=False)
        talk.record(turn, ids, [-0.1] * len(ids), [0] * len(ids), finish="stop")
        turn = talk.observe(
            Observation(
                messages=(
                    Message(role="tool", content=f"result {i}", tool_call_id="c", name="read"),
                    Message(role="tool", content="<|im_end|>", tool_call_id="d", name="read"),
                )
            )
        )
    assert [n.edge for n in trace] == [Edge.APPEND] * 11
    assert len(trace.roots()) == 1
    (sample,) = export(trace).samples
    assert int(sample.mask.sum()) == trace.sampled_tokens


def test_what_a_template_would_write_differently_changes_no_earlier_id(
    renderers_by_name: dict[str, Any], tokenizer: Any
) -> None:
    """Booleans, empty arguments, key order and spacing: the template's own words never replace the model's."""
    renderer = renderers_by_name["template:pythonic"]
    trace = Trace()
    talk = Conversation(renderer, trace)
    turn = talk.observe(Observation(messages=(Message(role="user", content="Go."),)))
    said = '<tool_call>{"arguments":{"all":false,  "path":"a","limit":null}, "name":"read"}</tool_call>'
    said += '<tool_call>{"name":"list","arguments":{}}</tool_call><|im_end|>'
    ids = tokenizer.encode(said, add_special_tokens=False)
    prompt = turn.prompt.array().tolist()
    answer = talk.record(turn, ids, [-0.1] * len(ids), [0] * len(ids), finish="stop")
    assert [c.name for c in answer.tool_calls] == ["read", "list"]
    assert answer.tool_calls[0].arguments == {"all": False, "path": "a", "limit": None}
    results = tuple(Message(role="tool", content="r", tool_call_id=c.id) for c in answer.tool_calls)
    turn = talk.observe(Observation(messages=results))
    assert turn.node.edge is Edge.APPEND
    assert turn.prompt.array().tolist()[: len(prompt) + len(ids)] == prompt + ids
    whole = renderer.render(trace.messages(len(trace) - 1), ()).ids
    assert whole[: len(prompt) + len(ids)] != prompt + ids, "the template does write it differently"


def test_a_template_that_forgets_gives_a_branch_with_its_reason(
    renderers_by_name: dict[str, Any], tokenizer: Any
) -> None:
    trace = Trace()
    talk = Conversation(renderers_by_name["template:forgetful"], trace)
    turn = talk.observe(Observation(messages=(Message(role="user", content="Go."),)))
    ids = tokenizer.encode("<think>hm</think>yes<|im_end|>", add_special_tokens=False)
    answer = talk.record(turn, ids, [-0.1] * len(ids), [0] * len(ids), finish="stop")
    assert (answer.reasoning, answer.text) == ("hm", "yes")
    with pytest.warns(BranchWarning, match="not prefix-stable"):
        turn = talk.observe(Observation(messages=(Message(role="user", content="and?"),)))
    assert turn.node.edge is Edge.REWRITE
    assert turn.node.origin == 1
    ids2 = tokenizer.encode("no<|im_end|>", add_special_tokens=False)
    talk.record(turn, ids2, [-0.2] * len(ids2), [0] * len(ids2), finish="stop")
    out = export(trace)
    assert out.delivered == len(ids) + len(ids2)
    assert len(out.samples) == 2


def test_going_back_goes_on_from_the_ids_of_then(renderers_by_name: dict[str, Any], tokenizer: Any) -> None:
    trace = Trace()
    talk = Conversation(renderers_by_name["qwen3"], trace)
    first = Message(role="user", content="Go.")
    turn = talk.observe(Observation(messages=(first,)))
    ids = [*tokenizer.encode("one", add_special_tokens=False), tokenizer.convert_tokens_to_ids("<|im_end|>")]
    one = talk.record(turn, ids, [-0.1] * len(ids), [0] * len(ids), finish="stop")
    wrong = Message(role="tool", content="wrong", tool_call_id="c")
    turn = talk.observe(Observation(messages=(wrong,)))
    talk.record(turn, ids, [-0.1] * len(ids), [0] * len(ids), finish="stop")
    better = Message(role="tool", content="better", tool_call_id="c")
    turn = talk.observe(Observation(kind=ObservationKind.REWRITE, messages=(first, one, better)))
    assert turn.node.parent == 1, "the branch leaves behind the first answer, whose ids stay"
    talk.record(turn, ids, [-0.1] * len(ids), [0] * len(ids), finish="stop")
    out = export(trace)
    assert len(out.samples) == 2
    assert out.delivered == 3 * len(ids)


def test_the_same_question_again_is_the_same_prompt(renderers_by_name: dict[str, Any]) -> None:
    trace = Trace()
    talk = Conversation(renderers_by_name["qwen3"], trace)
    turn = talk.observe(Observation(messages=(Message(role="user", content="Go."),)))
    again = talk.observe(Observation(messages=()))
    assert again.node is turn.node
    assert len(trace) == 1
