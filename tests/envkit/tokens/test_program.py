"""Resumed chat templates against the whole rendering: equal to the character, whatever the template looks at."""

from __future__ import annotations

import random
from typing import Any

import pytest

from envkit.messages import AssistantMessage, Message, Observation, ToolSpec
from envkit.tokens import Edge, Trace
from envkit.tokens.conversation import BranchWarning, Conversation
from envkit.tokens.program import Mark, Program, shown
from envkit.tokens.template import TemplateRenderer

pytestmark = pytest.mark.tokens

GENERATION = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
TURN = "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
PLAIN = "{% for m in messages %}" + TURN + "{% endfor %}" + GENERATION

#: Looks back only: a mark may always stand behind the last message.
FREE = {
    "plain": PLAIN,
    "tools": "{% if tools %}{{ tools | tojson(indent=2) }}{% endif %}" + PLAIN,
    "calls": PLAIN.replace(
        "<|im_end|>",
        "{% for c in m.tool_calls %}{{ loop.index }}/{{ loop.length }}{{ loop.last }}{{ c.function | tojson }}"
        "{% endfor %}<|im_end|>",
    ),
    "numbered": PLAIN.replace("{{ m.role }}", "{{ m.role }} {{ loop.index }}{{ ' first' if loop.first }}"),
    "counts": "{% set ns = namespace(n=0, roles=[]) %}{% for m in messages %}{% set ns.n = ns.n + m.content|length %}"
    "{% set ns.roles = (ns.roles + [m.role])[-3:] %}{{ ns.n }}{{ ns.roles }}" + TURN + "{% endfor %}{{ ns.n }}",
    "head and rest": "{% if messages[0].role == 'system' %}{% set first = messages[0].content %}"
    "{% set messages = messages[1:] %}{% else %}{% set first = 'none' %}{% endif %}{{ first }}"
    "{% for m in messages %}{{ first[:1] }}" + TURN + "{% endfor %}" + GENERATION,
    "alternates": "{% set ns = namespace(index=0) %}{% set rest = messages[1:] %}{% for m in rest %}"
    "{% if m.role != 'tool' %}{% set ns.index = ns.index + 1 %}{% endif %}{{ ns.index % 2 }}" + TURN + "{% endfor %}",
    "looks back": "{% for m in messages %}{% if loop.index0 and messages[loop.index0 - 1].role == m.role %}+{% endif %}"
    "{% if loop.previtem is defined %}{{ loop.previtem.role }}{% endif %}" + TURN + "{% endfor %}" + GENERATION,
    "macros": "{% macro say(m, mark='.') %}{{ mark }}{{ m.content|trim }}{% if ns.any %}!{% endif %}"
    "{% set ns.any = m.role == 'tool' %}{% endmacro %}{% set ns = namespace(any=false) %}"
    "{% for m in messages %}{{ say(m) }}{{ say(m, mark='-') }}{% endfor %}{% if ns.any %}?{% endif %}",
    "generation": "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
    "{% endgeneration %}{% else %}" + TURN + "{% endif %}{% endfor %}" + GENERATION,
    "in an if": "{% if messages|length > 1 or true %}{% for m in messages %}" + TURN + "{% endfor %}{% endif %}",
    "walks before": "{% set ns = namespace(last=0) %}{% for m in messages[::-1] %}{% if m.role == 'user' %}"
    "{% set ns.last = loop.index0 %}{% endif %}{% endfor %}" + PLAIN,
    "ends with a view": PLAIN + "{{ messages[-1].role }}{{ messages | length }}",
    "stops": "{% for m in messages %}{% if m.content == 'halt' %}{% break %}{% endif %}{% if m.role == 'tool' %}"
    "{% continue %}{% endif %}" + TURN + "{% endfor %}",
}
#: Look ahead, but only from the end of the conversation: a mark stands behind all but the last messages.
NEARLY = {
    "last": PLAIN.replace("<|im_end|>\n", "<|im_end|>{{ '\n' if not loop.last }}"),
    "zephyr": "{% for m in messages %}" + TURN + "{% if loop.last and add_generation_prompt %}A{% endif %}{% endfor %}",
    "next": "{% for m in messages %}" + TURN + "{% if loop.nextitem is defined and loop.nextitem.role == 'tool' %}T"
    "{% endif %}{% endfor %}",
    "next by place": "{% for m in messages %}" + TURN + "{% set next = messages[loop.index0 + 1] %}"
    "{% if next is defined and next.role == 'tool' %}T{% endif %}"
    "{% endfor %}",
    "outer loop": "{% for m in messages %}{% set outer = loop %}{% for c in m.tool_calls %}"
    "{{ c.function.name }}{{ outer.last }}{% endfor %}" + TURN + "{% endfor %}",
}
#: What an earlier message looks like changes when the user speaks again (or never tells).
HISTORY = {
    "reasoning since the user": "{% set ns = namespace(last=0, open=true) %}{% for m in messages[::-1] %}"
    "{% if ns.open and m.role == 'user' %}{% set ns.last = messages|length - 1 - loop.index0 %}"
    "{% set ns.open = false %}{% endif %}{% endfor %}{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.reasoning_content and loop.index0 > ns.last %}<think>{{ m.reasoning_content }}</think>{% endif %}"
    "{{ m.content }}<|im_end|>\n{% endfor %}" + GENERATION,
    "counted first": "{{ messages|length }}" + PLAIN,
    "tools with the last user": "{% set users = messages | selectattr('role', 'equalto', 'user') | list %}"
    "{% for m in messages %}{% if m == users[-1] and tools %}{{ tools|tojson }}{% endif %}" + TURN + "{% endfor %}",
    "counts down": PLAIN.replace("{{ m.role }}", "{{ loop.revindex }}{{ m.role }}"),
    "of all": PLAIN.replace("{{ m.role }}", "{{ loop.index }} of {{ loop.length }}"),
    "the last one": PLAIN.replace("{{ m.role }}", "{{ messages[-1].role }}"),
    "length": PLAIN.replace("{{ m.role }}", "{{ messages | length }}"),
    "walks inside": PLAIN.replace("{{ m.role }}", "{% for x in messages %}{{ x.role[0] }}{% endfor %}"),
    "slices": PLAIN.replace("{{ m.role }}", "{{ messages[loop.index0:] | length }}"),
    "hidden list": "{% set ns = namespace(l=[]) %}{% for m in messages %}{% set ns.l = ns.l + [m.role] %}{% endfor %}"
    "{% set all = ns.l %}{% for m in messages %}{{ all | join }}{{ m.content }}{% endfor %}",
    "list by another name": "{% set a = messages %}{% set b = a %}{% for m in messages %}{{ b|length }}{{ m.content }}"
    "{% endfor %}",
    "list in a pair": "{% set pair = (messages, 1) %}{% for m in messages %}{{ pair[0]|length }}{{ m.content }}"
    "{% endfor %}",
    "macro that counts": "{% macro n() %}{{ messages|length }}{% endmacro %}{% for m in messages %}{{ n() }}"
    "{{ m.content }}{% endfor %}",
    "outer name of the loop's": "{% set m = messages|length %}{% macro n() %}{{ m }}{% endmacro %}"
    "{% for m in messages %}{{ n() }}{{ m.content }}{% endfor %}",
    "a name that macros have": "{% set kwargs = messages|length %}{% for m in messages %}{{ kwargs }}{{ m.content }}"
    "{% endfor %}",
    "a variable called loop": "{% set loop = messages|length %}{% macro n() %}{{ loop }}{% endmacro %}"
    "{% for m in messages %}{{ n() }}{{ m.content }}{% endfor %}",
    "list as text": PLAIN.replace("{{ m.role }}", "{{ messages }}"),
    "list and list": PLAIN.replace("{{ m.role }}", "{{ (messages + [1]) | length }}"),
    "same list": PLAIN.replace("{{ m.role }}", "{{ messages == [m] }}"),
    "json of all": PLAIN.replace("{{ m.role }}", "{{ messages | tojson }}"),
    "flag inside": PLAIN.replace("{{ m.role }}", "{{ add_generation_prompt }}"),
    "flag by another name": "{% set g = add_generation_prompt %}" + PLAIN.replace("{{ m.role }}", "{{ g }}"),
    "nested memory": "{% set ns = namespace(inner=namespace(n=0)) %}{% for m in messages %}"
    "{% set inner = ns.inner %}{% set inner.n = inner.n + 1 %}{{ inner.n }}{{ m.content }}{% endfor %}",
    "memory in a list": "{% set l = [namespace(n=0)] %}{% for m in messages %}{% set x = l[0] %}{% set x.n = x.n + 1 %}"
    "{{ x.n }}{{ m.content }}{% endfor %}",
}
#: Clocks, chance and memories of their own.
NEVER = {
    "clock": PLAIN.replace("{{ m.role }}", "{{ strftime_now('%f') }}"),
    "chance": PLAIN.replace("{{ m.role }}", "{{ [1, 2, 3] | random }}"),
    "mapped chance": PLAIN.replace("{{ m.role }}", "{{ [[1, 2], [3]] | map('random') | list }}"),
    "cycler": "{% set c = cycler('a', 'b') %}{% for m in messages %}{{ c.next() }}{{ m.content }}{% endfor %}"
    + "{{ cycler }}",
    "no loop": "{{ messages | map(attribute='content') | join('\n') }}",
    "loop into a name": "{% set all %}{% for m in messages %}{{ m.content }}{% endfor %}{% endset %}{{ all }}",
}
READ = ToolSpec(name="read", description="", parameters={"type": "object"})
TOOLS = [{"type": "function", "function": {"name": "read", "description": "", "parameters": {"type": "object"}}}]


class Told:
    """The text before a mark, kept by the test."""

    def __init__(self, mark: Mark, before: str) -> None:
        self.mark = mark
        self.before = before


def conversation(rng: random.Random, n: int) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = [{"role": "system", "content": "s"}] if rng.random() < 0.5 else []
    out.append({"role": "user", "content": "u0"})
    while len(out) < n:
        message: dict[str, Any] = {"role": "assistant", "content": rng.choice(["", " a ", "halt", f"x{len(out)}"])}
        if rng.random() < 0.5:
            message["reasoning_content"] = f"r{len(out)}"
        if rng.random() < 0.6:
            message["tool_calls"] = [
                {"id": "c", "type": "function", "function": {"name": "read", "arguments": {"n": i}}}
                for i in range(rng.randint(1, 2))
            ]
        out.append(message)
        for i in range(rng.randint(0, 2)):
            out.append({"role": "tool", "tool_call_id": "c", "content": f"t{len(out)}.{i}", "name": "read"})
        if rng.random() < 0.3 or out[-1]["role"] == "assistant":
            out.append({"role": "user", "content": f"u{len(out)}"})
    return out


def truth(tokenizer: Any, messages: list[dict[str, Any]], tools: Any, generation: bool) -> str:
    return str(tokenizer.apply_chat_template(messages, tools=tools, tokenize=False, add_generation_prompt=generation))


@pytest.mark.parametrize("name", [*FREE, *NEARLY, *HISTORY])
def test_every_mark_of_every_length_gives_the_whole_text(name: str, wrapped: Any) -> None:
    tokenizer = wrapped(({**FREE, **NEARLY, **HISTORY})[name])
    program = Program.of(tokenizer, {})
    assert program is not None
    rng = random.Random(name)
    furthest = behind = 0
    for tools in (None, TOOLS):
        view, view_tools = shown(tokenizer, conversation(rng, 11), tools)
        told: list[Told] = []
        for n in range(1, len(view) + 1):
            for generation in (True, False):
                whole = truth(tokenizer, view[:n], tools, generation)
                for start in [None, *told]:
                    run = program.run(view[:n], view_tools, generation_prompt=generation, start=start and start.mark)
                    if run is None:
                        assert name in ("list as text", "list and list", "same list", "json of all")
                        continue
                    before = start.before if run.resumed and start is not None else ""
                    assert before + run.text == whole, (n, generation)
                    if run.mark is None:
                        continue
                    assert run.text.endswith(run.tail)
                    if generation:
                        text = before + run.text
                        told.append(Told(run.mark, text[: len(text) - len(run.tail)]))
                        if start is None:
                            furthest, behind = run.mark.done, max(behind, n - run.mark.done)
                told = told[-6:]
    if name in FREE and name != "stops":
        assert furthest >= len(view) - 1, "a mark stands behind the last message"
        assert behind <= 1
    elif name in NEARLY:
        assert furthest >= len(view) - 3


@pytest.mark.parametrize("name", FREE)
def test_another_past_is_never_taken_for_this_one(name: str, wrapped: Any) -> None:
    tokenizer = wrapped(FREE[name])
    program = Program.of(tokenizer, {})
    assert program is not None
    view, _ = shown(tokenizer, conversation(random.Random(1), 9), None)
    first = program.run(view, None, generation_prompt=True, start=None)
    assert first is not None
    assert first.mark is not None
    other = [{**m} for m in view]
    other[1]["content"] += " edited"
    for messages in (other, view[: len(view) - 4], [*view[1:], view[0]]):
        run = program.run(messages, None, generation_prompt=True, start=first.mark)
        assert run is not None
        if not run.resumed:
            assert run.text == truth(tokenizer, messages, None, True)
        else:
            assert first.mark.done <= 1, "nothing of it was changed"


@pytest.mark.parametrize("name", NEVER)
def test_what_is_no_function_of_the_messages_gives_no_program(name: str, wrapped: Any) -> None:
    program = Program.of(wrapped(NEVER[name]), {})
    if name == "cycler" and program is not None:
        view, _ = shown(wrapped(NEVER[name]), conversation(random.Random(2), 9), None)
        first = program.run(view[:5], None, generation_prompt=True, start=None)
        assert first is not None
        again = program.run(view, None, generation_prompt=True, start=first.mark)
        assert again is not None
        assert not again.resumed
        return
    assert program is None


def test_changed_tools_and_other_head_lose_the_mark(wrapped: Any) -> None:
    program = Program.of(wrapped(FREE["tools"]), {})
    assert program is not None
    view, tools = shown(wrapped(FREE["tools"]), conversation(random.Random(3), 9), TOOLS)
    first = program.run(view[:5], tools, generation_prompt=True, start=None)
    assert first is not None
    again = program.run(view, None, generation_prompt=True, start=first.mark)
    assert again is not None
    assert not again.resumed


@pytest.mark.parametrize("name", ["counted first", "tools with the last user", "of all", "the last one", "hidden list"])
def test_templates_that_rewrite_the_past_branch_with_a_warning(name: str, wrapped: Any) -> None:
    talk, tokenizer = talking(HISTORY[name], wrapped)
    turn = talk.observe(Observation(messages=(Message(role="user", content="Go."),), tools=(READ,)))
    ids = tokenizer.encode("yes<|im_end|>", add_special_tokens=False)
    talk.record(turn, ids, [-0.1] * len(ids), [0] * len(ids), finish="stop")
    with pytest.warns(BranchWarning):
        turn = talk.observe(Observation(messages=(Message(role="user", content="and?"),)))
    assert turn.node.edge is Edge.REWRITE
    whole = talk.renderer.render(talk.trace.messages(turn.node.index), (READ,)).ids
    assert turn.prompt.array().tolist() == whole


def test_reasoning_is_kept_among_tool_turns_and_branches_when_the_user_speaks(wrapped: Any) -> None:
    """As Qwen3's template does: proven turn by turn, far behind the last mark too."""
    talk, tokenizer = talking(HISTORY["reasoning since the user"], wrapped)
    turn = talk.observe(Observation(messages=(Message(role="user", content="Go."),)))
    ids = tokenizer.encode("<think>hm</think>yes<|im_end|>", add_special_tokens=False)
    for i in range(6):
        talk.record(turn, ids, [-0.1] * len(ids), [0] * len(ids), finish="stop")
        turn = talk.observe(Observation(messages=(Message(role="tool", content=f"r{i}", tool_call_id="c"),)))
        assert turn.node.edge is Edge.APPEND
    assert turn.prompt.array().tolist().count(tokenizer.convert_tokens_to_ids("<think>")) == 6
    talk.record(turn, ids, [-0.1] * len(ids), [0] * len(ids), finish="stop")
    with pytest.warns(BranchWarning, match="not prefix-stable"):
        turn = talk.observe(Observation(messages=(Message(role="user", content="and?"),)))
    assert turn.node.edge is Edge.REWRITE
    assert tokenizer.convert_tokens_to_ids("<think>") not in turn.prompt.array().tolist()
    talk.record(turn, ids, [-0.1] * len(ids), [0] * len(ids), finish="stop")
    turn = talk.observe(Observation(messages=(Message(role="tool", content="r", tool_call_id="c"),)))
    assert turn.node.edge is Edge.APPEND


@pytest.mark.parametrize("name", [*FREE, *NEARLY, *HISTORY])
def test_bridges_are_those_of_whole_renderings(name: str, wrapped: Any) -> None:
    """With marks and without: the same ids, or the same refusal, at every turn."""
    template = ({**FREE, **NEARLY, **HISTORY})[name]
    if "<|im_end|>" not in template:
        template = template.replace("{{ m.content }}", "{{ m.content }}<|im_end|>")
    tokenizer = wrapped(template)
    fast = TemplateRenderer(tokenizer, stop_tokens=["<|im_end|>"])
    rng = random.Random(name)
    ids = tokenizer.encode("yes<|im_end|>", add_special_tokens=False)
    said: list[Any] = [Message(role="user", content="Go.")]
    state = fast.render(said, ()).state
    tail = fast.encode("assistant\n")
    for i in range(8):
        message = parsed(fast, ids, tail)
        role = rng.choice(["tool", "tool", "user"])
        new = [Message(role=role, content=f"m{i}", tool_call_id="c" if role == "tool" else None)]
        marked = fast.bridge(tail, ids, said, message, new, (), state)
        whole = fast.bridge(tail, ids, said, message, new, (), None)
        if hasattr(marked, "reason"):
            assert marked == whole
            state = fast.render([*said, message, *new], ()).state
        else:
            assert marked.ids == whole.ids
            state = marked.state
        said = [*said, message, *new]


def parsed(renderer: Any, ids: list[int], tail: list[int]) -> Any:
    out = renderer.parse(ids, tail, ())
    return AssistantMessage(text=out.text, reasoning=out.reasoning, tool_calls=out.tool_calls)


def talking(template: str, wrapped: Any) -> tuple[Conversation, Any]:
    tokenizer = wrapped(template)
    return Conversation(TemplateRenderer(tokenizer, stop_tokens=["<|im_end|>"]), Trace()), tokenizer


@pytest.fixture(scope="session")
def wrapped(vocabulary: Any) -> Any:
    from transformers import PreTrainedTokenizerFast

    def make(template: str) -> Any:
        return PreTrainedTokenizerFast(tokenizer_object=vocabulary, eos_token="<|endoftext|>", chat_template=template)

    return make
