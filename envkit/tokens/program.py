"""A chat template that goes on where it stopped: a longer conversation's text without rendering the old part again.

A chat template is a program over the message list. Its main loop (the `for` over the messages that writes the prompt)
is made resumable: the state between two messages is written down as a `Mark`, and the next, longer conversation starts
there. That is a proof and no guess, because everything that a message's turn of the loop can read is accounted for:

- the message itself, and what `loop` tells about its place: fixed by its position;
- what looks ahead (`loop.last`, `loop.length`, `messages[-1]`, another walk over `messages`, `add_generation_prompt`):
  noted when it is read; no mark lies behind a turn whose answer to such a question may change;
- variables and namespaces of the outer template: all of it runs anew every time, and a mark counts only if every name
  that the loop mentions has the value it had, and the text before the loop is the same;
- namespaces that the loop changes: kept in the mark. Templates run in a sandbox that can change nothing else.

A template that remembers the last user message, numbers its messages or counts them therefore loses its marks exactly
when the answer changes, and the caller renders it whole. Templates that use anything this module does not know
(`include`, clocks, chance) give no program at all. Used by `template`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from jinja2 import TemplateError, nodes

from envkit.tokens.watch import Mark, Run, Unfollowed, Watch

__all__ = ["Mark", "Program", "Run", "shown"]

_RESUME, _WATCH, _FLAG, _LOOP = "envkit_resume", "envkit_watch", "envkit_flag", "envkit_loop"
_GENERATION = "add_generation_prompt"
#: Node types that a program may hold; expressions are all pure but for the names below.
_KNOWN: tuple[type[nodes.Node], ...] = (
    nodes.Template,
    *(nodes.Output, nodes.For, nodes.If, nodes.Macro, nodes.CallBlock, nodes.FilterBlock, nodes.With),
    *(nodes.Assign, nodes.AssignBlock, nodes.ExprStmt, nodes.Continue, nodes.Break),
    *(nodes.Name, nodes.NSRef, nodes.Const, nodes.TemplateData, nodes.Tuple, nodes.List, nodes.Dict, nodes.Pair),
    *(nodes.Keyword, nodes.CondExpr, nodes.Filter, nodes.Test, nodes.Call, nodes.Getitem, nodes.Getattr, nodes.Slice),
    *(nodes.Concat, nodes.Compare, nodes.Operand, nodes.BinExpr, nodes.UnaryExpr, nodes.ExtensionAttribute),
)
#: Not functions of their arguments, or with a memory of their own.
_IMPURE = {"strftime_now", "lipsum", "cycler", "joiner", "random", "self", "super"}


class Program:
    """A compiled chat template with a resumable main loop."""

    def __init__(self, template: Any, names: dict[str, bool], variables: dict[str, Any]) -> None:
        self._template = template
        self._names = names
        self._variables = variables

    @classmethod
    def of(cls, tokenizer: Any, kwargs: dict[str, Any]) -> Program | None:
        """The program of a tokenizer's chat template; None where it has to be rendered whole every time."""
        try:
            from transformers import PreTrainedTokenizerBase
            from transformers.utils.chat_template_utils import _compile_jinja_template as compiled
        except ImportError:
            return None
        source = getattr(tokenizer, "chat_template", None)
        own = getattr(type(tokenizer), "apply_chat_template", None)
        if not isinstance(source, str) or own is not PreTrainedTokenizerBase.apply_chat_template:
            return None
        try:
            environment = compiled(source).environment  # the very filters, globals and sandbox of `transformers`
            tree = environment.parse(source)
            names = _make_resumable(tree, source)
            if names is None:
                return None
            template = environment.from_string(tree)
        except TemplateError:
            return None
        return cls(template, names, {**tokenizer.special_tokens_map, **kwargs, "documents": None})

    def run(self, messages: Sequence[Any], tools: Any, *, generation_prompt: bool, start: Mark | None) -> Run | None:
        """Renders, from a mark where that still holds. None if the template did what can't be followed.

        Args:
            messages: As the template is shown them (`shown`); the same objects in every call of one conversation.
        """
        watch = Watch(self._names, start, generation_prompt)
        context = self._template.new_context(
            {
                **self._variables,
                _RESUME: watch.resume,
                _WATCH: watch.watched,
                _FLAG: watch.flag,
                "messages": list(messages),
                "tools": tools,
                _GENERATION: generation_prompt,
            }
        )
        try:
            for piece in self._template.root_render_func(context):
                watch.pieces.append(piece)
        except (Unfollowed, TemplateError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError):
            return None  # if it is the template's own refusal, rendering it whole says so
        return watch.result()


def shown(tokenizer: Any, messages: list[dict[str, Any]], tools: Any) -> tuple[list[Any], Any]:
    """Messages and tools as `transformers` shows them to a template (it adds and drops keys)."""
    text = tokenizer.apply_chat_template(
        messages,
        tools=tools,
        tokenize=False,
        chat_template="{{ [messages, tools] | tojson }}",
        add_generation_prompt=False,
    )
    view: tuple[list[Any], Any] = tuple(json.loads(text))
    return view


# ---- the change to the template --------------------------------------------------------------------------------------


def _make_resumable(tree: nodes.Template, source: str) -> dict[str, bool] | None:
    """Rewrites the main loop in place; None if it can't be done soundly.

    Returns:
        The outer names that the loop mentions, and whether what it reads of each is noted as it reads it.
    """
    if "envkit_" in source or not all(isinstance(n, _KNOWN) for n in _every(tree)):
        return None
    lists = _lists(tree)
    loop = max(_loops(tree.body, lists), key=lambda f: sum(1 for _ in _every(f)), default=None)
    if loop is None:
        return None
    macros: list[nodes.Node] = [m for m in _every(tree) if isinstance(m, nodes.Macro)]
    inside = [n for part in (*loop.body, *macros) for n in _every(part)]
    mentioned = {n.name for n in inside if isinstance(n, nodes.Name | nodes.Filter)}
    mentioned |= {n.value for n in inside if isinstance(n, nodes.Const) and n.value in ("random",)}
    if mentioned & _IMPURE or any(n.name == "loop" for n in _names(loop.target)):
        return None
    # names of the loop's own, too: a macro that mentions one means the outer variable
    reads = {n.name for n in inside if isinstance(n, nodes.Name) and n.ctx == "load"} - {_GENERATION}
    reads |= {n.name for n in inside if isinstance(n, nodes.NSRef)}
    for part in (*macros, *loop.body):
        _replace(part, lists)
    for part in loop.body:
        _rename_loop(part)
    names = {n: n in lists for n in sorted(reads)}
    loop.target = nodes.Tuple([loop.target, nodes.Name(_LOOP, "store")], "store")
    values = nodes.Tuple([nodes.Name(n, "load") for n in names], "load")
    loop.iter = nodes.Call(nodes.Name(_RESUME, "load"), [loop.iter, values], [], None, None)
    if tree.environment is not None:
        tree.set_environment(tree.environment)
    for node in _every(tree):
        node.lineno = node.lineno or 1
    return names


def _lists(tree: nodes.Template) -> set[str]:
    """Names that may hold the messages, or some of them."""
    lists: set[str] = set()
    more = {"messages"}
    while more - lists:
        lists |= more
        more = {
            n.target.name
            for n in _every(tree)
            if isinstance(n, nodes.Assign)
            and isinstance(n.target, nodes.Name)
            and any(m.name in lists for m in _names(n.node))
        }
    return lists


def _every(node: nodes.Node) -> Iterator[nodes.Node]:
    yield node
    for child in node.iter_child_nodes():
        yield from _every(child)


def _names(node: nodes.Node) -> list[nodes.Name]:
    return [n for n in _every(node) if isinstance(n, nodes.Name)]


def _loops(body: Iterable[nodes.Node], lists: set[str]) -> Iterator[nodes.For]:
    """Loops whose output goes straight into the prompt (not into a variable or through a filter)."""
    for node in body:
        if isinstance(node, nodes.For) and not (node.test or node.recursive or node.else_):
            mentions = {n.name for n in _names(node.iter)}
            if mentions & lists and any(isinstance(n, nodes.Output) for n in _every(node)):
                yield node
        elif isinstance(node, nodes.If):
            yield from _loops(node.body, lists)
            yield from _loops(node.elif_, lists)
            yield from _loops(node.else_, lists)


def _replace(node: nodes.Node, lists: set[str]) -> None:
    """Puts message lists and the generation flag behind calls that note what is read."""

    def change(child: nodes.Node) -> nodes.Node:
        if isinstance(child, nodes.Name) and child.ctx == "load":
            if child.name in lists:
                return nodes.Call(nodes.Name(_WATCH, "load"), [child], [], None, None)
            if child.name == _GENERATION:
                return nodes.Call(nodes.Name(_FLAG, "load"), [child], [], None, None)
            return child
        _replace(child, lists)
        return child

    _map_children(node, change)


def _rename_loop(node: nodes.Node) -> None:
    """The main loop's `loop`, outside of inner loops' bodies, where the word means the inner one."""

    def change(child: nodes.Node) -> nodes.Node:
        if isinstance(child, nodes.Name):
            return nodes.Name(_LOOP, child.ctx) if child.name == "loop" else child
        _rename_loop(child)
        return child

    if isinstance(node, nodes.Macro):
        return  # a macro doesn't see it
    if isinstance(node, nodes.For):
        node.iter = _renamed(node.iter)
        for part in node.else_:
            _rename_loop(part)
        return
    _map_children(node, change)


def _renamed(node: Any) -> Any:
    holder = nodes.Output([node])
    _rename_loop(holder)
    return holder.nodes[0]


def _map_children(node: nodes.Node, change: Any) -> None:
    for name in node.fields:
        value = getattr(node, name, None)
        if isinstance(value, nodes.Node):
            setattr(node, name, change(value))
        elif isinstance(value, list):
            setattr(node, name, [change(v) if isinstance(v, nodes.Node) else v for v in value])
