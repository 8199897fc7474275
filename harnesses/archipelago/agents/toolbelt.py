"""The `toolbelt` agent: it adds the tools it wants, keeps a to-do list, and ends with `final_answer`.

The model's tool list is the meta tools and stays so; a tool's schema comes as the result of adding it, and calls of
tools that were not added are told how. Calls beside `final_answer` are carried out first, whatever their order.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Sequence
from typing import Any

from envkit.behaviours.repair import explain_unparsable, match_tool
from envkit.failure import Boundary, EnvkitError, FailureKind, did_you_mean
from envkit.harnesses.archipelago.agents.base import AgentSession, Final
from envkit.harnesses.archipelago.agents.todo import STATUSES, TodoList
from envkit.harnesses.archipelago.prompt import NO_CALLS
from envkit.harnesses.archipelago.results import Answer
from envkit.messages import AssistantMessage, End, Message, ToolCall, ToolSpec

__all__ = ["META_TOOLS", "ToolbeltSession"]

_ENDS = ("completed", "blocked", "failed")


def _spec(name: str, description: str, properties: dict[str, Any], required: tuple[str, ...] = ()) -> ToolSpec:
    parameters: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        parameters["required"] = list(required)
    return ToolSpec(name=name, description=description, parameters=parameters)


_NAME = {"tool_name": {"type": "string", "description": "The tool's name, as toolbelt_list_tools gives it."}}
_TODO = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "description": "A short name of your own, to update the entry by."},
        "content": {"type": "string", "description": "What is to be done; needed for a new entry."},
        "status": {"type": "string", "enum": list(STATUSES)},
    },
    "required": ["id", "status"],
}
META_TOOLS: tuple[ToolSpec, ...] = (
    _spec("toolbelt_list_tools", "Names the tools that are not in your toolbelt yet.", {}),
    _spec("toolbelt_inspect_tool", "Shows what a tool does and takes, without adding it.", _NAME, ("tool_name",)),
    _spec(
        "toolbelt_add_tool",
        "Adds a tool to your toolbelt and shows what it takes. From then on call it by its name.",
        _NAME,
        ("tool_name",),
    ),
    _spec("toolbelt_remove_tool", "Takes a tool out of your toolbelt.", _NAME, ("tool_name",)),
    _spec(
        "todo_write",
        "Writes your to-do list: updates and adds entries (merge), or replaces the list.",
        {
            "todos": {"type": "array", "items": _TODO},
            "merge": {"type": "boolean", "description": "True keeps the entries that you don't name."},
        },
        ("todos", "merge"),
    ),
    _spec(
        "final_answer",
        "Ends the work with your answer. Refused while to-dos are unfinished.",
        {
            "answer": {"type": "string", "description": "The results asked for, and the files made or changed."},
            "status": {"type": "string", "enum": list(_ENDS)},
        },
        ("answer", "status"),
    ),
)
_META_NAMES = tuple(tool.name for tool in META_TOOLS)
_FINAL = "final_answer"

_LAST_TURN = (
    "[Note: your next message is the last one of this task. Calls in it are still carried out, but you will not see "
    "their results. If the work is done, call final_answer now; finish or cancel your to-dos in the same message.]"
)


class ToolbeltSession(AgentSession):
    """See `AgentSession`."""

    last_turn_note = _LAST_TURN

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._belt: list[str] = []
        self._todos = TodoList()
        self._final: Final | None = None
        self._tools: dict[str, Callable[[dict[str, Any]], Answer]] = {
            "toolbelt_list_tools": self._list,
            "toolbelt_inspect_tool": self._inspect,
            "toolbelt_add_tool": self._add,
            "toolbelt_remove_tool": self._remove,
            "todo_write": self._todo,
            _FINAL: self._answer_finally,
        }

    def specs(self) -> tuple[ToolSpec, ...]:
        taken = sorted(set(self.toolset.offers) & set(_META_NAMES))
        if taken:
            raise EnvkitError(
                f"a tool server offers {', '.join(taken)}, which the toolbelt agent has itself; use agent=loop",
                kind=FailureKind.CAPABILITY,
                boundary=Boundary.HARNESS,
            )
        if not self._options.belt_in_list:
            return META_TOOLS
        return (*META_TOOLS, *(self.toolset.offers[name].spec for name in self._belt))

    def without_calls(self, message: AssistantMessage) -> End | Message:
        return Message(role="user", content=NO_CALLS)

    def order(self, calls: Sequence[ToolCall]) -> list[int]:
        """As they stand, but `final_answer` after everything else."""
        return sorted(range(len(calls)), key=lambda index: match_tool(calls[index].name, _META_NAMES) == _FINAL)

    def reads_only(self, call: ToolCall) -> bool:
        return self.toolset.find(call.name, self._belt) is not None and super().reads_only(call)

    def final(self) -> Final | None:
        return self._final

    async def answer(self, call: ToolCall) -> Answer:
        name = match_tool(call.name, _META_NAMES)
        if name is not None:
            if call.arguments is None:
                return Answer(explain_unparsable(call), is_error=True)
            return self._tools[name](call.arguments)
        offer = self.toolset.find(call.name)
        if offer is not None and offer.spec.name not in self._belt:
            return Answer(
                f"{offer.spec.name!r} is not in your toolbelt; nothing was done. Add it first, with toolbelt_add_tool "
                f'and {{"tool_name": "{offer.spec.name}"}}, then call it again.',
                is_error=True,
            )
        if offer is None:
            return self._unknown(call.name)
        return await self.toolset.call(call, self.budget_s())

    # -- meta tools

    def _unknown(self, name: str) -> Answer:
        known = (*_META_NAMES, *self.toolset.offers)
        return Answer(
            f"There is no tool named {name!r}{did_you_mean(name, known)}. Nothing was done. toolbelt_list_tools names "
            f"all tools; in your toolbelt are: {', '.join(self._belt) or 'none'}.",
            is_error=True,
        )

    def _named(self, arguments: dict[str, Any]) -> str | Answer:
        """The tool that the arguments name, by its own name."""
        given = arguments.get("tool_name", arguments.get("name"))
        if not isinstance(given, str):
            return Answer(_json({"error": "tool_name is missing: the name of a tool, as a text"}), is_error=True)
        offer = self.toolset.find(given)
        if offer is None:
            error = f"there is no tool {given!r}{did_you_mean(given, tuple(self.toolset.offers))}"
            return Answer(_json({"error": f"{error}; toolbelt_list_tools names all tools"}), is_error=True)
        return offer.spec.name

    def _list(self, arguments: dict[str, Any]) -> Answer:
        return Answer(_json([name for name in self.toolset.offers if name not in self._belt]))

    def _inspect(self, arguments: dict[str, Any]) -> Answer:
        name = self._named(arguments)
        return name if isinstance(name, Answer) else Answer(_json(self._shown(name)))

    def _shown(self, name: str) -> dict[str, Any]:
        return self.toolset.offers[name].spec.model_dump(mode="json")

    def _add(self, arguments: dict[str, Any]) -> Answer:
        name = self._named(arguments)
        if isinstance(name, Answer):
            return name
        if name not in self._belt:
            if len(self._belt) >= self._options.max_belt:
                error = f"the toolbelt is full ({len(self._belt)} tools); remove one first, with toolbelt_remove_tool"
                return Answer(_json({"error": error}), is_error=True)
            self._belt.append(name)
        return Answer(_json({"success": True, "toolbelt_size": len(self._belt), "tool": self._shown(name)}))

    def _remove(self, arguments: dict[str, Any]) -> Answer:
        name = self._named(arguments)
        if isinstance(name, Answer):
            return name
        if name not in self._belt:
            return Answer(_json({"error": f"{name!r} is not in the toolbelt; nothing was removed"}), is_error=True)
        self._belt.remove(name)
        return Answer(_json({"success": True, "toolbelt_size": len(self._belt)}))

    def _todo(self, arguments: dict[str, Any]) -> Answer:
        merge = arguments.get("merge", True)
        if isinstance(merge, str):
            merge = merge.strip().lower() != "false"
        todos = arguments.get("todos")
        if isinstance(todos, str):
            with contextlib.suppress(ValueError, RecursionError):  # the list says what it expected
                todos = json.loads(todos)
        result = self._todos.write(todos, bool(merge))
        return Answer(_json(result), is_error=not result["success"])

    def _answer_finally(self, arguments: dict[str, Any]) -> Answer:
        if self._final is not None:
            return Answer("The final answer was given already in this message; this one is not counted.", is_error=True)
        answer, status = arguments.get("answer"), arguments.get("status", "completed")
        if not isinstance(answer, str):
            return Answer("final_answer needs an answer, as a text. The work goes on.", is_error=True)
        if status not in _ENDS:
            hint = did_you_mean(str(status), _ENDS)
            error = f"status must be one of {', '.join(_ENDS)}, found {status!r}{hint}. The work goes on."
            return Answer(error, is_error=True)
        unfinished = self._todos.unfinished
        if unfinished:
            named = "; ".join(f"{todo['id']} ({todo['status']}): {todo['content']}" for todo in unfinished)
            return Answer(
                f"The final answer was not accepted: {len(unfinished)} to-dos are unfinished: {named}. Finish them, or "
                "set them to completed or cancelled with todo_write, then answer again.",
                is_error=True,
            )
        self._final = Final(answer, status)
        return Answer(answer or "(empty answer)")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
