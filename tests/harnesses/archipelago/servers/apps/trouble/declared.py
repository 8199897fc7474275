"""An app whose tools do what tools must not: hang, crash, take memory, say too much."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from envkit.harnesses.archipelago.servers.app import Action, App, Arguments, Meta, Tool


class Nothing(Arguments):
    pass


class Seconds(Arguments):
    seconds: float


class Size(Arguments):
    size: int


class Place(Arguments):
    file_path: str
    seconds: float = 0.0


class SetCell(Arguments):
    type: Literal["set_cell"]
    cell: str
    value: str | int | float | bool


class Rename(Arguments):
    type: Literal["rename_sheet"]
    sheet: str
    new_name: str


Operation = Annotated[SetCell | Rename, Field(discriminator="type")]


class Edit(Arguments):
    file_path: str = Field(description="The file")
    operations: list[Operation]
    level: int | None = None
    kind: Literal["bar", "line"] = "bar"
    tags: list[str] = Field(default_factory=list)


class Edited(BaseModel):
    success: bool
    applied: int
    error: str | None = None


class Request(Arguments):
    action: str
    path: str | None = None
    seconds: float | None = None
    operations: list[Operation] | None = None
    size: int | None = None


def _tool(name: str, arguments: type[Arguments] = Nothing, **options: object) -> Tool:
    return Tool(name, f"Does {name}.", arguments, f"handlers:{name}", **options)  # type: ignore[arg-type]


APP = App(
    name="trouble",
    server="trouble_server",
    package="apps.trouble",
    state="trouble",
    tools=(
        _tool("sleep", Seconds),
        _tool("crash"),
        _tool("leave"),
        _tool("memory"),
        _tool("spin"),
        _tool("text", Size),
        _tool("thing", Size, result=Edited),
        _tool("picture", Size),
        _tool("broken"),
        _tool("unreadable", Place),
        _tool("noisy"),
        _tool("nothing"),
        _tool("half", Place, writes=True, lock="file_path"),
        _tool("count", Place, writes=True, lock="file_path"),
        _tool("count_state", Seconds, writes=True),
        _tool("background", Seconds),
        _tool("edit", Edit, wrapper="input", result=Edited),
    ),
    metas=(
        Meta(
            name="trouble",
            description="Trouble of all kinds.",
            request=Request,
            actions={
                "wait": Action("sleep", {"seconds": "seconds"}),
                "edit": Action("edit", {"path": "file_path", "operations": "operations"}),
                "say": Action("text", {"size": "size"}),
                "look": Action("picture", {"size": "size"}),
            },
        ),
    ),
    models={"SetCell": SetCell, "Rename": Rename},
)
