"""Calls that can't be carried out: how names are read and what the model is told."""

import pytest

from envkit.behaviours.repair import explain_unknown_tool, explain_unparsable, is_unparsable, match_tool
from envkit.messages import AssistantMessage, ToolCall

TOOLS = ("bash", "read", "todowrite")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("read", "read"),
        ("Read", "read"),
        ("READ", "read"),
        (" read ", "read"),
        ("TodoWrite", "todowrite"),
        ("rd", None),
    ],
)
def test_only_case_and_blanks_are_repaired(written: str, meant: str | None) -> None:
    assert match_tool(written, TOOLS) == meant


def test_two_tools_that_differ_in_case_are_not_confused() -> None:
    assert match_tool("Read", ("read", "Read")) == "Read"
    assert match_tool("READ", ("read", "Read")) is None


def test_an_unknown_tool_is_answered_with_what_there_is() -> None:
    text = explain_unknown_tool("reed", TOOLS)
    assert "'reed'" in text
    assert "did you mean 'read'" in text
    assert "bash, read, todowrite" in text


def test_an_unreadable_call_is_answered_with_the_reason_and_what_was_written() -> None:
    call = ToolCall.parse("1", "read", '{"filePath": "a.txt"')
    text = explain_unparsable(call)
    assert "'read'" in text
    assert '{"filePath": "a.txt"' in text
    assert "line 1 column" in text


def test_a_long_unreadable_call_is_not_repeated_whole() -> None:
    assert len(explain_unparsable(ToolCall.parse("1", "write", '{"content": "' + "x" * 10_000))) < 800


def test_a_turn_is_unparsable_when_none_of_its_calls_can_be_read() -> None:
    good, bad = ToolCall.parse("1", "read", "{}"), ToolCall.parse("2", "read", "{")
    assert is_unparsable(AssistantMessage(tool_calls=(bad,)))
    assert not is_unparsable(AssistantMessage(tool_calls=(bad, good)))
    assert not is_unparsable(AssistantMessage(text="done"))
