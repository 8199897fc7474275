"""Which apps there are, under which names their tools are published, and the tool list in both modes.

In `meta` mode an app has its meta tool and the companion `<name>_schema` (filesystem and code: their plain tools); in
`individual` mode every tool. Names carry the server's prefix when more than one app is hosted. The list can be kept as
data (`precomputed`), so that a server answers it without importing any app.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from envkit.failure import did_you_mean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from envkit.harnesses.archipelago.servers.app import App

__all__ = ["APPS", "CATALOG_FILE", "STANDARD", "Entry", "Mode", "build", "chosen", "load_app", "published", "save"]

Mode = Literal["meta", "individual"]
_PACKAGE = "envkit.harnesses.archipelago.servers"
#: The apps of a standard run: 21 tools in meta mode.
STANDARD = ("filesystem", "code", "calendar", "chat", "mail", "pdf", "docs", "sheets", "slides")
#: All apps, in published order.
APPS = (*STANDARD, "edgar", "fmp")
#: The tool lists as data, beside this module, where a bundle was made.
CATALOG_FILE = "catalog.json"


@dataclass(frozen=True, slots=True)
class Entry:
    """One published tool.

    Attributes:
        app: What `load_app` takes.
        name: Without the server's prefix.
        kind: What it is in its app: a tool, a meta tool, or a meta tool's companion.
        target: The name of the tool or meta tool in the app.
    """

    app: str
    server: str
    name: str
    kind: Literal["tool", "meta", "schema"]
    target: str
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None = None
    annotations: dict[str, Any] = field(default_factory=dict)


def chosen(names: Sequence[str] | None) -> tuple[str, ...]:
    """The apps asked for, by their own or their published name, in published order; then apps of others, by the module
    that declares `APP` (a name with a dot). Raises `ValueError`."""
    if not names:
        return tuple(name for name in STANDARD if _there(name))
    found: set[str] = set()
    others: list[str] = []
    for name in names:
        if "." in name:
            others.append(name.strip())
            continue
        plain = name.strip().removesuffix("_server").removesuffix("_execution").removesuffix("_sec")
        if plain not in APPS:
            raise ValueError(f"there is no app {name!r}{did_you_mean(name, APPS)}; known are {', '.join(APPS)}")
        found.add(plain)
    return (*(name for name in APPS if name in found), *dict.fromkeys(others))


def _there(name: str) -> bool:
    return find_spec(f"{_PACKAGE}.{name}") is not None


@lru_cache(maxsize=16)
def load_app(name: str) -> App:
    """An app's declaration; imports its package, which imports nothing heavy."""
    app: App = import_module(name if "." in name else f"{_PACKAGE}.{name}").APP
    return app


def build(app: App, mode: Mode) -> list[Entry]:
    """The entries of one app."""
    from envkit.harnesses.archipelago.servers import schemas

    entries = []
    if mode == "meta" and app.metas:
        for meta in app.metas:
            entries.append(
                Entry(
                    app.name, app.server, meta.name, "meta", meta.name, meta.description,
                    schemas.wire_schema(meta.request, "request", compact=True),
                )
            )  # fmt: skip
            if app.schema_tool is not None and meta is not app.metas[0]:
                continue  # one companion for all of them
            companion = app.schema_tool or f"{meta.name}_schema"
            description = (
                f"The full JSON schema of an action or a nested type of {meta.name}; without a name, the names"
            )
            entries.append(
                Entry(
                    app.name, app.server, companion, "schema", meta.name, description,
                    schemas.wire_schema(schemas.schema_request(meta.schema_argument), "request"),
                    annotations={"readOnlyHint": True},
                )
            )  # fmt: skip
    for tool in app.tools:
        if mode == "meta" and app.metas and tool.name not in app.also:
            continue
        hints = {"readOnlyHint": not tool.writes} if app.name != "code" else {}
        entries.append(
            Entry(
                app.name, app.server, tool.name, "tool", tool.name, tool.description,
                schemas.wire_schema(tool.arguments, tool.wrapper, tool.outer), schemas.output_schema(tool), hints,
            )
        )  # fmt: skip
    return entries


def published(
    apps: Sequence[str], mode: Mode, *, prefixed: bool | None = None, individual: Sequence[str] = ()
) -> dict[str, Entry]:
    """Published name -> entry, for the hosted apps. Unprefixed with exactly one app, unless `prefixed` says.

    Args:
        individual: Apps that are in individual mode whatever the mode is.
    """
    kept = _kept()
    prefix = len(apps) > 1 if prefixed is None else prefixed
    found = {}
    for name in apps:
        own: Mode = "individual" if name in individual else mode
        entries = kept.get(own, {}).get(name)
        for entry in build(load_app(name), own) if entries is None else entries:
            found[f"{entry.server}_{entry.name}" if prefix else entry.name] = replace(entry, app=name)
    return found


@lru_cache(maxsize=1)
def _kept() -> dict[str, dict[str, list[Entry]]]:
    """The lists that were kept as data beside this module; none in a source tree."""
    try:
        content = json.loads(Path(__file__).with_name(CATALOG_FILE).read_bytes())
    except FileNotFoundError:
        return {}
    return {
        mode: {app: [Entry(**entry) for entry in entries] for app, entries in apps.items()}
        for mode, apps in content.items()
    }


def save(folder: Path) -> None:
    """Keeps the lists of every app as data in `folder` (a bundle's copy of this package).

    An app that can't be listed is left out, so that it does not take the others with it: a server that is asked for it
    says why.
    """
    content: dict[str, dict[str, list[dict[str, Any]]]] = {"meta": {}, "individual": {}}
    modes: tuple[Mode, ...] = ("meta", "individual")
    for name in filter(_there, APPS):
        for mode in modes:
            try:
                content[mode][name] = [asdict(entry) for entry in build(load_app(name), mode)]
            except Exception as error:  # noqa: BLE001 the capture point, see above
                print(f"app {name} can't be listed: {type(error).__name__}: {error}", file=sys.stderr)
    (folder / CATALOG_FILE).write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")
