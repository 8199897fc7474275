"""How an app is declared: its tools, their typed arguments, and the one meta tool that stands for all of them.

An app is data. Declaring it imports nothing heavy: a tool names its handler as text, and the handler's module is
imported at its first call. A handler is an ordinary function `handler(arguments, context) -> str | BaseModel | Image |
list`, run in a forked child of the server process: it may be killed at its deadline and may crash without harm to
anything but its own call. What it raises as `ToolError` is told to the model; anything else is a fault of ours.

Used by the server process (`host.py`), by the harness and the tests, which hold the published tool table as data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, model_validator

from envkit.harnesses.archipelago.servers.context import Context, ToolError

__all__ = ["Action", "App", "Arguments", "Context", "Image", "Meta", "Tool", "ToolError"]


#: What the tools that take a `path` and those that take a `file_path` are mixed up with.
_EVERYWHERE = (("path", "file_path"), ("file", "file_path"), ("filepath", "file_path"), ("file_path", "path"),
               ("directory", "path"), ("dir", "path"), ("folder", "path"))  # fmt: skip


class Arguments(BaseModel):
    """Base of all argument models: unknown names are errors, texts are taken as they are, numbers may come as text."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    #: Names that models use in other tools for a field of this one -> the field; taken where the field is not given.
    also: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def meant(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments under their own names."""
        taken = dict(given)
        for name, field_name in (*cls.also.items(), *_EVERYWHERE):
            if (
                name not in cls.model_fields
                and field_name in cls.model_fields
                and taken.get(name) is not None
                and taken.get(field_name) is None
            ):
                taken[field_name] = taken.pop(name)
        return taken

    @model_validator(mode="before")
    @classmethod
    def _meant(cls, given: Any) -> Any:
        return cls.meant(given) if isinstance(given, dict) else given


@dataclass(frozen=True, slots=True)
class Image:
    """An image for the model: `data` are the bytes of a file of type `mime` (image/png, image/jpeg ...)."""

    data: bytes
    mime: str


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool of individual mode.

    Attributes:
        name: The published name, without the server's prefix.
        description: For the model: one or two sentences, what it does and returns.
        arguments: The model of its arguments: published names and required flags; nested types refined.
        handler: `"reading:read_tab"`: module (relative to the app's package) and function.
        wrapper: The envelope the published schema puts round the arguments: `request`, `input` or none.
        writes: Whether it changes files; such calls on one file (or on one app's state) run one after another.
        lock: The name of the argument that holds the path of the file it changes; None locks the whole app.
        result: The model of a structured result; None: text or an image.
        outer: Arguments that the published schema has beside the envelope, not in it.
    """

    name: str
    description: str
    arguments: type[Arguments]
    handler: str
    wrapper: Literal["request", "input"] | None = None
    writes: bool = False
    lock: str | None = None
    result: type[BaseModel] | None = None
    outer: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Action:
    """One action of a meta tool: which tool carries it out, and how the request's fields become its arguments.

    Attributes:
        tool: Name of the individual tool.
        fields: Field of the request -> argument of the tool, for those this action takes. A field that an action does
            not take is an error that names the fields it does take.
        build: For nested arguments: from the given fields to the tool's arguments, in place of `fields`' renaming.
        wrap: From the tool's result to the payload of the meta result; None: text becomes `{"raw_output": text}`.
        required: With `build`: the fields that the action can't do without.
    """

    tool: str
    fields: Mapping[str, str]
    build: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    wrap: Callable[[Any], Any] | None = None
    required: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Meta:
    """The meta tool of an app, `name(request: {action, ...})`, and its companion `name_schema`.

    Attributes:
        name: `sheets`, `docs` ...; the companion is `<name>_schema`.
        request: Every field of every action, all optional but `action`.
        actions: In published order. `help` is answered by the server itself where `has_help`.
        schema_argument: What the companion's one field is called: `model`, or `schema_name` (slides).
    """

    name: str
    description: str
    request: type[Arguments]
    actions: Mapping[str, Action]
    has_help: bool = True
    schema_argument: Literal["model", "schema_name", "tool_name"] = "model"
    #: The result as one JSON text rather than as a structured object (calendar does this).
    as_text: bool = False


@dataclass(frozen=True, slots=True)
class App:
    """An app: `server` is its published name (the prefix of its tools behind a gateway).

    Attributes:
        package: The Python package below `envkit.harnesses.archipelago.servers` that holds its handlers.
        metas: Most apps have one meta tool; filesystem and code have none: their tools are the same in both modes.
        models: Names for the schema companion -> models, beyond those of the tools' arguments (operation variants).
        state: Folder below `/.apps_data` that holds the app's state, if it has any.
    """

    name: str
    server: str
    package: str
    tools: tuple[Tool, ...]
    metas: tuple[Meta, ...] = ()
    models: Mapping[str, type[BaseModel]] = field(default_factory=dict)
    state: str | None = None
    #: Where all meta tools share one companion: its name (`fmp_schema`), and tools listed in meta mode as well.
    schema_tool: str | None = None
    also: tuple[str, ...] = ()
