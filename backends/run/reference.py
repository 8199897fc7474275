"""The plan's reference: every key of every table with its type, default and meaning, from the models themselves.

    python -m envkit.backends.run.reference torch [docs/plan.md]      # to standard output, or into a page

docs/plan.md holds it for the `torch` backend between two markers; a test holds them together, and fails for a field
that nobody described. Descriptions are what stands below a field, or its line in the class's `Attributes:`.
"""

from __future__ import annotations

import enum
import inspect
import re
import sys
import types
import typing
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from envkit import plugins

__all__ = ["MARKERS", "document", "reference"]

#: What stands around the reference in a page.
MARKERS = ("<!-- reference: begin -->", "<!-- reference: end -->")

#: A default longer than this is left out.
_LONGEST = 60


def reference(model: type[BaseModel]) -> str:
    """The tables of a plan as Markdown, in the order of its fields.

    Raises:
        ValueError: A field has no description.
    """
    parts: list[str] = []
    _table(model, "", parts, set())
    return "\n".join(parts).rstrip() + "\n"


def document(text: str, model: type[BaseModel]) -> str:
    """A page with the reference between its markers made anew. Raises `ValueError` for a page without them."""
    before, begin, rest = text.partition(MARKERS[0])
    _, end, after = rest.partition(MARKERS[1])
    if not begin or not end:
        raise ValueError(f"expected the markers {MARKERS[0]} and {MARKERS[1]}")
    return f"{before}{begin}\n\n{reference(model)}\n{end}{after}"


def _table(
    model: type[BaseModel],
    place: str,
    parts: list[str],
    seen: set[tuple[str, type]],
    title: str = "",
) -> None:
    if (place, model) in seen:
        return
    seen.add((place, model))
    parts.append(f"### `[{place}]`{title}\n" if place else "### Top level\n")
    intro = _intro(model)
    if intro and place:
        parts.append(intro + "\n")
    rows, inner = [], []
    for name, field in model.model_fields.items():
        models = _models(field.annotation)
        path = f"{place}.{name}" if place else name
        tag = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
        if models:
            inner.append((path, name, field, models))
            if _is_table(field):
                continue
        if name == "name" and len(tag) == 1:
            continue  # the tag of a union: named in the title
        rows.append(f"| `{name}` | {_type(field.annotation)} | {_default(field)} | {_described(model, name, field)} |")
    if rows:
        parts += ["| key | type | default | |", "|---|---|---|---|", *rows, ""]
    for path, _, field, models in inner:
        chosen = type(field.default).__name__ if isinstance(field.default, BaseModel) else None
        for each in models:
            title = ""
            if len(models) > 1:
                tag = each.model_fields["name"].default
                title = f' with `name = "{tag}"`' + (" (the default)" if each.__name__ == chosen else "")
            elif field.default is None:
                title = " (absent by default)"
            _table(each, path, parts, seen, title)


def _is_table(field: FieldInfo) -> bool:
    """It is written as a table of its own, hence no row here."""
    return isinstance(field.default, BaseModel) or field.default is None or field.is_required()


def _models(annotation: Any) -> list[type[BaseModel]]:
    found: list[type[BaseModel]] = []
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        found.append(annotation)
    elif get_origin(annotation) not in (dict, list, tuple):
        for part in get_args(annotation):
            found += _models(part)
    return found


def _type(annotation: Any) -> str:
    origin, parts = get_origin(annotation), get_args(annotation)
    if annotation is type(None):
        return "nothing"
    if origin is Literal:
        return ", ".join(f"`{part}`" for part in parts)
    if origin is typing.Annotated:
        return _type(parts[0])
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_type(part) for part in parts if part is not type(None))
    if origin is dict:
        return f"table of {_type(parts[1])}" if parts and parts[1] is not Any else "table"
    if origin in (tuple, list):
        inner = list(dict.fromkeys(_type(part) for part in parts if part is not Ellipsis))
        return f"list of {' or '.join(inner)}"
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return annotation.__name__
    names = {"str": "text", "int": "whole number", "float": "number", "bool": "true or false", "Path": "path"}
    return names.get(getattr(annotation, "__name__", ""), getattr(annotation, "__name__", str(annotation)))


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None or value in ((), [], {}, ""):
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    shown = f'"{value}"' if isinstance(value, str) else str(list(value)) if isinstance(value, tuple) else str(value)
    return f"`{shown}`" if len(shown) <= _LONGEST else ""


def _described(model: type[BaseModel], name: str, field: FieldInfo) -> str:
    """What a field means, on one line."""
    text = field.description or ""
    for owner in model.__mro__:
        if not text and name in vars(owner).get("__annotations__", {}):
            text = _attributes(inspect.getdoc(owner) or "").get(name, "")
    text = " ".join(text.split())
    if not text:
        raise ValueError(f"{model.__module__}.{model.__name__}.{name} has no description; write one below the field")
    return text.replace("|", "\\|")


def _attributes(doc: str) -> dict[str, str]:
    """The entries of a docstring's `Attributes:`; one entry may speak for several names (`low, high: ...`)."""
    _, found, body = doc.partition("Attributes:")
    if not found:
        return {}
    out: dict[str, str] = {}
    current: list[str] = []
    for line in body.splitlines():
        match = re.match(r"^ {4}([\w, ]+): (.*)$", line)
        if match:
            current = [name.strip() for name in match[1].split(",")]
            out.update(dict.fromkeys(current, match[2]))
        elif line.strip() and line.startswith("        "):
            out.update({name: f"{out[name]} {line.strip()}" for name in current})
        elif line.strip():
            break
    return out


def _intro(model: type[BaseModel]) -> str:
    """The first paragraph of a model's docstring."""
    doc = inspect.getdoc(model) or ""
    if doc == (inspect.getdoc(BaseModel) or ""):
        return ""
    return " ".join(doc.split("\n\n")[0].split())


def main(backend: str = "torch", page: str | None = None) -> None:
    """Writes the reference of a backend's plan into a page, or to standard output."""
    model = plugins.resolve("backends", backend).plan_model
    if page is None:
        print(reference(model), end="")
    else:
        path = Path(page)
        path.write_text(document(path.read_text(encoding="utf-8"), model), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
