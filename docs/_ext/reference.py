"""The reference as Markdown: what modules export, with signatures, fields and docstrings, from the source alone.

A name is public when it stands in its module's `__all__`; one that is imported from elsewhere is shown where it is
exported first on the page. Every name gets a target in small letters, so that pages can link to it:
`[AsyncEnv](#envkit.env.asyncenv)`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import griffe
from source import Source

__all__ = ["reference"]

_SECTIONS = {
    "parameters": "Arguments",
    "attributes": "Attributes",
    "raises": "Raises",
    "returns": "Returns",
    "yields": "Yields",
}
#: A signature on one line is at most this long.
_WIDTH = 100


def reference(source: Source, modules: Iterable[str]) -> str:
    """The public names of these modules, in the order in which each exports them.

    Raises:
        ValueError: A module is not there, exports nothing, or exports a name that is written nowhere.
    """
    shown: set[str] = set()
    targets: set[str] = set()
    return "\n\n".join(part for name in modules for part in _module(source, name, shown, targets)) + "\n"


def _module(source: Source, name: str, shown: set[str], targets: set[str]) -> Iterator[str]:
    module = source.module(name)
    if module is None or not module.exports:
        raise ValueError(f"{name}: expected a module with `__all__`, found none")
    yield f"{_target(name, targets)}## `{name}`"
    yield from _docstring(module)
    if name == "envkit":
        yield _index(source, module)
        return
    for exported in module.exports:
        found = source.find(f"{name}.{exported}")
        if found is None:
            raise ValueError(f"{name}.__all__ names {exported!r}, which is written nowhere")
        path = found.path
        if path in shown or isinstance(found, griffe.Module):
            continue
        shown.add(path)
        yield from _entry(str(exported), found, targets)


def _target(path: str, targets: set[str]) -> str:
    """A name's target; of two that differ in capitals alone, which are one to docutils, the first has it."""
    name = path.lower()
    if name in targets:
        return ""
    targets.add(name)
    return f"({name})=\n\n"


def _index(source: Source, module: griffe.Module) -> str:
    """The names of `envkit` itself: each is written in a module of its own, and described there."""
    lines = ["| name | |", "|---|---|"]
    for exported in module.exports or ():
        found = source.find(f"{module.path}.{exported}")
        if found is None:
            raise ValueError(f"{module.path}.__all__ names {exported!r}, which is written nowhere")
        if isinstance(found, griffe.Class | griffe.Function):
            first = found.docstring.value.partition("\n\n")[0] if found.docstring else ""
            told = _escaped(" ".join(first.split())).replace("|", "\\|")
            lines.append(f"| [`{exported}`](#{found.path.lower()}) | {told} |")
    return "\n".join(lines)


def _entry(name: str, found: griffe.Object, targets: set[str]) -> Iterator[str]:
    yield f"{_target(found.path, targets)}### `{name}`"
    if isinstance(found, griffe.Class):
        bases = ", ".join(base for base in map(str, found.bases) if not base.startswith("_"))
        made = found.members.get("__init__")
        lines = [f"class {found.name}({bases})" if bases else f"class {found.name}"]
        yield _code("\n".join([*lines, *([_signature(made)] if isinstance(made, griffe.Function) else [])]))
        yield from _docstring(found)
        yield from _fields(found)
        for member in found.members.values():
            if isinstance(member, griffe.Function) and not member.name.startswith("_"):
                yield f"{_target(member.path, targets)}#### `{name}.{member.name}`"
                yield _code(_signature(member))
                yield from _docstring(member)
    elif isinstance(found, griffe.Function):
        yield _code(_signature(found))
        yield from _docstring(found)
    elif isinstance(found, griffe.Attribute):
        yield _code(_assignment(found))
        yield from _docstring(found)


def _fields(owner: griffe.Class) -> Iterator[str]:
    """What a class's docstring does not say already of its public fields, as a table."""
    told = {
        field.name
        for section in (owner.docstring.parsed if owner.docstring else [])
        if section.kind.value == "attributes"
        for field in section.value
    }
    # What `__init__` alone sets is its own business; fields of a dataclass or a model have no `__init__` here.
    set_up = "__init__" in owner.members
    rows = []
    for member in owner.members.values():
        if not isinstance(member, griffe.Attribute) or member.name.startswith("_") or member.name == "model_config":
            continue
        declared = "class-attribute" in member.labels or "property" in member.labels or not set_up
        if member.name in told or not declared:
            continue
        kind = str(member.annotation) if member.annotation is not None else ""
        value = str(member.value) if member.value is not None else ""
        text = _escaped(" ".join(member.docstring.value.split()) if member.docstring else "").replace("|", "\\|")
        rows.append((f"`{member.name}`", _cell(kind), _cell(value), text))
    kept = [column for column in range(4) if any(row[column] for row in rows)]
    if rows:
        heads = ("name", "type", "value", "")
        lines = [[heads[column] for column in kept], ["---"] * len(kept), *([row[c] for c in kept] for row in rows)]
        yield "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(text: str) -> str:
    if not text:
        return ""
    short = text if len(text) <= 120 else text[:117] + "..."
    return "`" + " ".join(short.split()).replace("|", "\\|").replace("`", "'") + "`"


def _docstring(found: griffe.Object) -> Iterator[str]:
    if found.docstring is None:
        return
    for section in found.docstring.parsed:
        kind = section.kind.value
        if kind == "text":
            yield _escaped(section.value)
        elif kind in _SECTIONS:
            lines = [f"**{_SECTIONS[kind]}**", ""]
            for item in section.value:
                name = getattr(item, "name", "") or (str(item.annotation) if kind == "raises" else "")
                text = _escaped(" ".join(item.description.split()))
                lines.append(f"- `{name}`: {text}" if name else f"- {text}")
            yield "\n".join(lines)
        elif kind == "examples":
            for what, text in section.value:
                yield _code(text) if what.value == "examples" else _escaped(text)
        else:
            value = section.value
            yield f"**{section.title or kind.capitalize()}**: {_escaped(getattr(value, 'description', str(value)))}"


def _signature(function: griffe.Function) -> str:
    head = "async def" if "async" in function.labels else "def"
    decorators = [f"@{label}\n" for label in ("staticmethod", "classmethod", "property") if label in function.labels]
    parameters: list[str] = []
    star = False
    for parameter in function.parameters:
        kind = parameter.kind
        if parameter.name in ("self", "cls") and not parameters:
            continue
        if kind is griffe.ParameterKind.var_positional:
            star = True
        if kind is griffe.ParameterKind.keyword_only and not star:
            parameters.append("*")
            star = True
        prefix = {griffe.ParameterKind.var_positional: "*", griffe.ParameterKind.var_keyword: "**"}.get(kind, "")
        text = f"{prefix}{parameter.name}"
        if parameter.annotation is not None:
            text += f": {parameter.annotation}"
        if parameter.default is not None and not prefix:
            text += f" = {parameter.default}" if parameter.annotation is not None else f"={parameter.default}"
        parameters.append(text)
    back = f" -> {function.returns}" if function.returns is not None else ""
    line = f"{head} {function.name}({', '.join(parameters)}){back}"
    if len(line) > _WIDTH:
        line = f"{head} {function.name}(\n    " + ",\n    ".join(parameters) + f",\n){back}"
    return "".join(decorators) + line


def _assignment(found: griffe.Attribute) -> str:
    kind = f": {found.annotation}" if found.annotation is not None else ""
    value = str(found.value) if found.value is not None else ""
    return f"{found.name}{kind}" + (f" = {value if len(value) <= _WIDTH else '...'}" if value else "")


def _code(text: str) -> str:
    return f"```python\n{text}\n```"


def _escaped(text: str) -> str:
    """Docstrings are Markdown in all but one thing: a `<name>` in them is no HTML."""
    parts = re.split(r"(``.*?``|`[^`]*`)", text)
    return "".join(part if index % 2 else part.replace("<", "&lt;") for index, part in enumerate(parts))
