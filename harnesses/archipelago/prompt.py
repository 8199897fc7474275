"""The system prompts: who the model is, what it works with, and how the work is judged. In our own words.

The same task gives the same text from run to run: the date is the session's clock, the tools are the session's.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection
from typing import Literal

__all__ = ["NO_CALLS", "system_prompt"]

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

#: What the toolbelt agent is told after a message without any call.
NO_CALLS = (
    "Your message called no tool, so nothing happened. Go on with the work by calling tools; when it is done, or can't "
    "be done, call final_answer."
)

_WHO = """\
You do office work for somebody who reads your final answer and opens the files you leave. You work on your own: \
nobody answers questions meanwhile, so where something is unclear, do what a careful colleague would do and say so in \
the end.

How to work
- Look before you act: find the files that matter, read them, and check every figure at its source. Later mails, \
messages or versions may have overtaken a document.
- Files are named from the root of the shared drive: `/report.xlsx` and `/filesystem/report.xlsx` are the same file. \
Mail, chat and calendar are reached through their tools.
- Change only what you are asked to change, and keep the form of what is there: formulas stay formulas, styles stay.
- Save results where you are told, under the name you are told. Files are judged as they are when you finish.
- A call that fails says why. Read it, change something, and try again.{code}{meta}
- Before you finish, read back what you saved and check it against the request."""

_CODE = """
- {tool} runs bash in /filesystem, with Python and pandas, openpyxl, python-docx, python-pptx, pdfplumber, pypdf and \
matplotlib (write `python3 - <<'EOF'` ... `EOF`); there paths are real: /filesystem/report.xlsx. There is no network."""
_META = """
- Most apps have one tool with an `action`: give the fields that this action takes, and leave the others out. The tool \
whose name ends in `_schema` shows the exact form of nested values, such as the operations of an edit."""
_LOOP_END = """

When the work is done, write your final answer as a message without any tool call: the results asked for, with units, \
and the files you made or changed. Keep it short."""
_BELT = """

Your tools
- You start with an empty toolbelt. toolbelt_list_tools names all tools there are; toolbelt_add_tool adds one and \
shows how it is called; after that you call it by its name, like any tool. toolbelt_inspect_tool shows one without \
adding it. At most {max_belt} tools fit; toolbelt_remove_tool makes room.
- For work of several steps keep a list with todo_write, and keep it true.
- End with final_answer, once: the results asked for, with units, and the files you made or changed, in short; its \
status is `completed`, `blocked` (something outside your power is missing) or `failed`. It is refused while to-dos are \
unfinished: complete or cancel them first."""
_TAIL = "\n\nToday is {date}.{turns}"

_COMPACT = """\
You do office work with the given tools. Files are named from `/`.{code} Change only what you are asked to. {end} \
Today: {date}.{turns}"""


def system_prompt(
    *,
    style: Literal["default", "compact"],
    agent: Literal["loop", "toolbelt"],
    tools: Collection[str],
    code_tool: str | None,
    now: dt.datetime,
    max_turns: int | None,
    max_belt: int,
) -> str:
    """The prompt of an agent.

    Args:
        tools: All tools there are, added or not.
        code_tool: The name of the one that runs programs, if there is one.
    """
    date = f"{_DAYS[now.weekday()]}, {now:%Y-%m-%d}"
    turns = "" if max_turns is None else f" You may write {max_turns} messages for this task, the last one included."
    if style == "compact":
        end = (
            "When done, answer in one short message without tool calls."
            if agent == "loop"
            else "Add tools (toolbelt_list_tools, toolbelt_add_tool), then call them. When done, call final_answer."
        )
        code = "" if code_tool is None else f" {code_tool} runs bash in /filesystem."
        return _COMPACT.format(code=code, end=end, date=date, turns=turns)
    code = "" if code_tool is None else _CODE.format(tool=code_tool)
    meta = _META if any(name.endswith("_schema") for name in tools) else ""
    ending = _LOOP_END if agent == "loop" else _BELT.format(max_belt=max_belt)
    return _WHO.format(code=code, meta=meta) + ending + _TAIL.format(date=date, turns=turns)
