"""Carrying out one call: arguments checked, the handler found and run, what it raises told in plain words.

`call` takes a published name; `call_tool` and `call_meta` take an app's declarations (tests of the apps use them, in
their own process). Everything that a model can cause ends as an `Outcome` with `error` set; a handler that raises what
it should not is a fault of ours, which the model is told briefly and the outcome carries in full.
"""

from __future__ import annotations

import errno
import json
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from envkit.failure import did_you_mean
from envkit.harnesses.archipelago.servers import results, schemas
from envkit.harnesses.archipelago.servers.app import Action, App, Arguments, Context, Meta, Tool, ToolError
from envkit.harnesses.archipelago.servers.arguments import unwrap, validate
from envkit.harnesses.archipelago.servers.results import Outcome

__all__ = ["Call", "call_meta", "call_tool", "handler_of", "module_of", "prepare_meta", "prepare_tool", "run"]

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(frozen=True, slots=True)
class Call:
    """A call that is ready to run.

    Attributes:
        what: What is called, as the model knows it.
        tool: None for what the server answers itself (`help`, a schema), whose `answer` is the outcome.
        wrap: From the handler's result to the outcome.
    """

    what: str
    app: App
    tool: Tool | None = None
    arguments: BaseModel | None = None
    wrap: Callable[[Any], Outcome] = results.from_value
    answer: Outcome | None = None
    #: Around an error: what the meta tool's object says of it.
    action: str | None = None

    def failed(self, message: str, fault: str | None = None) -> Outcome:
        content = None if self.action is None else {"action": self.action, "error": message}
        return Outcome.failed(message, fault=fault, structured=content)


# -- what is asked for


def prepare_tool(app: App, tool: Tool, raw: Any, what: str | None = None) -> Call:
    """Checks the arguments of an individual tool. Raises `ToolError`."""
    what = what or tool.name
    arguments = validate(tool.arguments, unwrap(raw, tool.wrapper, tool.arguments, what), what)
    return Call(what, app, tool, arguments)


def prepare_meta(app: App, meta: Meta, raw: Any) -> Call:
    """Checks a request to a meta tool, and the arguments of the tool that carries it out.

    Raises:
        ToolError: The action is unknown, or its fields don't fit; the message names the fields that it takes.
    """
    given = unwrap(raw, "request", meta.request, meta.name)
    known = (["help"] if meta.has_help else []) + list(meta.actions)
    action = given.get("action")
    if not isinstance(action, str) or not action.strip():
        raise ToolError(f"{meta.name}: `action` is required, one of {', '.join(known)}")
    action = _meant(action, known)
    if action == "help" and meta.has_help:
        return Call(meta.name, app, answer=_helped(meta, app))
    if action not in meta.actions:
        raise ToolError(
            f"{meta.name}: there is no action {action!r}{did_you_mean(action, known)}; it has {', '.join(known)}"
        )
    what = f"{meta.name} action {action}"
    request = validate(meta.request, {**given, "action": action}, meta.name)
    fields = _given(request)
    fields.pop("action", None)
    chosen = meta.actions[action]
    tool = _tool(app, chosen.tool)
    if chosen.build is None:
        back = {argument: name for name, argument in chosen.fields.items()}
        named = tool.arguments.meant({chosen.fields.get(name, name): value for name, value in fields.items()})
        fields = {back.get(name, name): value for name, value in named.items()}
    taken = {name: value for name, value in fields.items() if name in chosen.fields}
    _check_fields(what, meta, chosen, tool, fields, taken)
    if chosen.build is not None:
        built = chosen.build(taken)
    else:
        built = {chosen.fields[name]: value for name, value in taken.items()}
    shown = {argument: field for field, argument in chosen.fields.items()}
    arguments = validate(tool.arguments, built, what, shown if chosen.build is None else None)
    return Call(what, app, tool, arguments, lambda value: _wrapped(meta, chosen, action, value), action=action)


def prepare_schema(app: App, meta: Meta, raw: Any) -> Outcome:
    """Answers the companion of a meta tool: the full schema of a model, or the names there are."""
    name_of = meta.schema_argument
    if isinstance(raw, str):
        raw = {name_of: raw}
    if isinstance(raw, dict) and isinstance(raw.get("request"), str) and not raw["request"].strip().startswith("{"):
        raw = {name_of: raw["request"]}
    request = schemas.schema_request(name_of)
    what = app.schema_tool or f"{meta.name}_schema"
    asked = getattr(validate(request, unwrap(raw, "request", request, what), what), name_of)
    known = schemas.known_models(app, meta)
    if not asked:
        return results.structured({"schema_names" if name_of == "schema_name" else "models": list(known)})
    name = asked if asked in known else _meant(asked, list(known))
    if name not in known:
        raise ToolError(
            f"{what}: there is no model {asked!r}{did_you_mean(asked, list(known))}; known are {', '.join(known)}"
        )
    content: dict[str, Any] = {name_of: name, "json_schema": known[name]()}
    if name_of == "schema_name":
        content = {"schema_names": [name], "json_schema": content["json_schema"]}
    if meta.as_text:
        return results.structured(content, also_text=False)
    return results.structured(content)


def _tool(app: App, name: str) -> Tool:
    return next(tool for tool in app.tools if tool.name == name)


def _meant(word: str, known: list[str]) -> str:
    flat = word.strip().casefold().replace("-", "_").replace(" ", "_")
    return next((name for name in known if name.casefold() == flat), word)


def _given(request: Arguments) -> dict[str, Any]:
    """The fields that were sent and say something, as plain values."""
    # Null says nothing in a field of the request; further in it may be a value, such as that of a cell to be emptied.
    dumped = request.model_dump(by_alias=True, exclude_unset=True)
    return {name: value for name, value in dumped.items() if value is not None}


def _check_fields(
    what: str, meta: Meta, action: Action, tool: Tool, fields: Mapping[str, Any], taken: Mapping[str, Any]
) -> None:
    """Raises `ToolError` for a field that says something and is not this action's, and for one that is missing."""
    known = schemas.action_fields(meta, action, tool)
    takes = _takes(what, known)
    for name, value in fields.items():
        if name not in taken and value not in ("", [], {}):
            hint = did_you_mean(name, [field for field in known if field not in taken])
            raise ToolError(f"{what} does not take `{name}`{hint}. {takes}")
    missing = [f"`{name}`" for name, required in known.items() if required and name not in taken]
    if missing:
        raise ToolError(f"{what}: {' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} required. {takes}")


def _takes(what: str, known: Mapping[str, bool]) -> str:
    if not known:
        return f"{what} takes no further fields."
    names = [name if required else f"{name} (optional)" for name, required in known.items()]
    return f"{what} takes {', '.join(names)}."


def _helped(meta: Meta, app: App) -> Outcome:
    actions = {}
    for name, action in meta.actions.items():
        tool = _tool(app, action.tool)
        known = schemas.action_fields(meta, action, tool)
        entry: dict[str, Any] = {"description": tool.description}
        required = [field for field, needed in known.items() if needed]
        optional = [field for field, needed in known.items() if not needed]
        if required:
            entry["required"] = required
        if optional:
            entry["optional"] = optional
        actions[name] = entry
    content = {
        "action": "help",
        "help": {
            "description": meta.description,
            "actions": actions,
            "schemas": f"{app.schema_tool or f'{meta.name}_schema'} gives the full schema of: "
            + ", ".join([meta.name] if app.schema_tool else schemas.known_models(app, meta)),
        },
    }
    return results.structured(content, also_text=not meta.as_text)


def _wrapped(meta: Meta, chosen: Action, action: str, value: Any) -> Outcome:
    """A handler's result as the meta tool gives it: `{action, <action>: payload}`, images as they are."""
    images: list[dict[str, Any]] = []
    payload: Any
    if chosen.wrap is not None:
        payload = results.plain(chosen.wrap(value))
    elif isinstance(value, (BaseModel, dict)):
        payload = results.plain(value)
    else:
        blocks = results.blocks_of(value)
        images = [block for block in blocks if block["type"] == "image"]
        texts = [block["text"] for block in blocks if block["type"] == "text"]
        if not texts:
            return Outcome(images)
        payload = {"raw_output": results.cut("\n".join(texts))}
    content = {"action": action, action: payload}
    return results.structured(content, also_text=not meta.as_text, blocks=images)


# -- running it


def module_of(app: App, tool: Tool) -> str:
    """The module that holds a tool's handler."""
    package = app.package
    if "." not in package:
        package = f"envkit.harnesses.archipelago.servers.{package}"
    return f"{package}.{tool.handler.partition(':')[0]}"


def handler_of(app: App, tool: Tool) -> Callable[[Any, Context], Any]:
    """The handler, its module imported."""
    handler: Callable[[Any, Context], Any] = getattr(
        import_module(module_of(app, tool)), tool.handler.partition(":")[2]
    )
    return handler


def run(call: Call, context: Context) -> Outcome:
    """Runs a prepared call, in this process. Raises nothing but `MemoryError`."""
    from envkit.office.problem import Unreadable

    if call.answer is not None:
        return call.answer
    assert call.tool is not None
    try:
        return call.wrap(handler_of(call.app, call.tool)(call.arguments, context))
    except ToolError as error:
        return call.failed(str(error))
    except Unreadable as error:
        return call.failed(unreadable(context, error))
    except MemoryError:
        raise
    except OSError as error:
        if error.errno in _NO_ROOM:
            return call.failed(f"{call.what} found no room to write ({error.strerror}); delete what is not needed")
        return _fault(call, error)
    except Exception as error:  # noqa: BLE001 the capture point: a handler's own fault must not look like an answer
        return _fault(call, error)


def _fault(call: Call, error: Exception) -> Outcome:
    message = (
        f"{call.what} failed by a fault of its own ({type(error).__name__}: {str(error)[:300]}); nothing is known "
    )
    message += "to be wrong with the arguments. Try another way"
    return call.failed(message, "".join(traceback.format_exception(error))[-8000:])


def unreadable(context: Context, error: Any) -> str:
    """What is wrong with a file, in words: its name, the kind of trouble, the reader's own sentence, what to do."""
    from envkit.office.problem import Problem

    name = "the file" if context.file is None else context.shown(context.file)
    remedy = {
        Problem.ENCRYPTED: "Tools have no password; look for an unprotected copy",
        Problem.TOO_BIG: "Read a part of it with a shell command",
        Problem.NOT_THIS_FORMAT: "Use the tool for what it really is",
        Problem.CORRUPT: "Look for another copy, or read what is left of it with a shell command",
        Problem.TIMEOUT: "Read a part of it with a shell command",
        Problem.PARSER_CRASH: "Look for another copy, or read it with a shell command",
        Problem.UNSUPPORTED: "Convert it first, for example with LibreOffice, where that is installed",
    }.get(error.problem)
    sentence = str(error).strip().rstrip(".")
    message = f"{name} can't be read ({error.problem}): {sentence}"
    return f"{message}. {remedy}." if remedy else message


def call_tool(app: App, name: str, arguments: Any, context: Context) -> Outcome:
    """Calls an individual tool in this process, as tests do. `arguments` may have their envelope or not."""
    try:
        call = prepare_tool(app, _tool(app, name), arguments)
    except ToolError as error:
        return Outcome.failed(str(error))
    return run(call, context)


def call_meta(app: App, name: str, request: Any, context: Context) -> Outcome:
    """Calls a meta tool (or its `_schema` companion) in this process, as tests do."""
    for meta in app.metas:
        try:
            if name == meta.name:
                return run(prepare_meta(app, meta, request), context)
            if name == (app.schema_tool or f"{meta.name}_schema"):
                return prepare_schema(app, meta, request)
        except ToolError as error:
            return Outcome.failed(str(error))
    raise KeyError(name)


def context_for(app: App, filesystem: Path, apps_data: Path, settings: Mapping[str, str] | None = None) -> Context:
    """A context for calls in this process; the app's state lies where the published variables say, else below
    `apps_data`."""
    settings = dict(settings or {})
    state = None
    if app.state is not None:
        named = settings.get(f"APP_{app.state.upper()}_DATA_ROOT")
        state = Path(named) if named else apps_data / app.state
    return Context(filesystem, apps_data, state, settings)


def text_of(outcome: Outcome) -> Any:
    """The structured result, or the text parsed where it is JSON: for tests and scripts."""
    if outcome.structured is not None:
        return outcome.structured
    try:
        return json.loads(outcome.text)
    except ValueError:
        return outcome.text
