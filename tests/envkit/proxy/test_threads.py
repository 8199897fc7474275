"""Requests told apart into threads: what appends, what is a rewrite, what stands apart."""

from __future__ import annotations

from typing import Any

from envkit.messages import AssistantMessage, Message, Observation, ObservationKind, ToolCall, ToolSpec
from envkit.proxy import ModelRequest, ThreadBook

TOOLS = (ToolSpec(name="bash", description="", parameters={}),)
SYSTEM = Message(role="system", content="You work.")
TASK = Message(role="user", content="Do it.")
HEAD = (SYSTEM, TASK)


def request(*messages: Message | AssistantMessage, tools: tuple[ToolSpec, ...] = TOOLS, **fields: Any) -> ModelRequest:
    return ModelRequest(messages=messages, tools=tools, stream=False, model="m", **fields)


def calling(id: str, text: str = "") -> AssistantMessage:
    return AssistantMessage(text=text, tool_calls=(ToolCall.parse(id, "bash", '{"command": "ls"}'),))


def result(id: str, text: str = "ok") -> Message:
    return Message(role="tool", content=text, tool_call_id=id)


def turn(book: ThreadBook, asked: ModelRequest, answer: AssistantMessage) -> Observation:
    observation = book.observe(asked)
    book.replied(observation.thread, answer)
    return observation


def test_a_conversation_that_grows_appends() -> None:
    book = ThreadBook()
    turn(book, request(*HEAD), calling("1"))
    second = turn(book, request(*HEAD, calling("1"), result("1")), calling("2"))
    assert (second.kind, second.messages) == (ObservationKind.APPEND, (result("1"),))
    third = turn(book, request(*HEAD, calling("1"), result("1"), calling("2"), result("2")), calling("3"))
    assert (third.kind, third.messages) == (ObservationKind.APPEND, (result("2"),))


def test_the_same_request_twice_is_two_samples_and_the_second_goes_back() -> None:
    book = ThreadBook()
    turn(book, request(*HEAD), calling("1"))
    again = turn(book, request(*HEAD), calling("2"))
    assert (again.kind, again.thread, again.messages) == (ObservationKind.REWRITE, "main", HEAD)
    # Going on from the second sample appends to it.
    on = book.observe(request(*HEAD, calling("2"), result("2")))
    assert (on.kind, on.messages) == (ObservationKind.APPEND, (result("2"),))


def test_titles_and_summaries_are_threads_of_their_own() -> None:
    book = ThreadBook()
    title = (Message(role="system", content="You are a title generator."), TASK)
    first = turn(book, request(*title, tools=()), AssistantMessage(text="A title"))
    assert (first.thread, first.kind) == ("side-1", ObservationKind.SIDE)
    main = turn(book, request(*HEAD), calling("1"))
    assert (main.thread, main.kind) == ("main", ObservationKind.APPEND)
    summary = (Message(role="system", content="Summarise."), Message(role="user", content="all of it"))
    second = turn(book, request(*summary, tools=()), AssistantMessage(text="So far"))
    third = turn(book, request(*summary, tools=()), AssistantMessage(text="So far"))
    assert [second.thread, third.thread] == ["side-2", "side-3"]
    # The work goes on where it was.
    on = book.observe(request(*HEAD, calling("1"), result("1")))
    assert (on.thread, on.kind) == ("main", ObservationKind.APPEND)


def test_a_sub_agent_has_its_own_growing_thread() -> None:
    book = ThreadBook()
    turn(book, request(*HEAD), calling("1"))
    sub = (Message(role="system", content="You search."), Message(role="user", content="find it"))
    few = (ToolSpec(name="grep", description="", parameters={}),)
    opened = turn(book, request(*sub, tools=few), calling("s1"))
    assert (opened.thread, opened.kind) == ("side-1", ObservationKind.SIDE)
    on = turn(book, request(*sub, calling("s1"), result("s1"), tools=few), AssistantMessage(text="found"))
    assert (on.thread, on.kind, on.messages) == ("side-1", ObservationKind.APPEND, (result("s1"),))
    back = book.observe(request(*HEAD, calling("1"), result("1", "found")))
    assert (back.thread, back.kind) == ("main", ObservationKind.APPEND)


def test_compaction_rewrites_the_thread_whole() -> None:
    book = ThreadBook()
    turn(book, request(*HEAD), calling("1"))
    turn(book, request(*HEAD, calling("1"), result("1")), calling("2"))
    summary = AssistantMessage(text="We did this.")
    go_on = Message(role="user", content="Continue.")
    compacted = book.observe(request(SYSTEM, Message(role="user", content="So far?"), summary, go_on))
    assert (compacted.thread, compacted.kind) == ("main", ObservationKind.REWRITE)
    assert [m.role if isinstance(m, Message) else "assistant" for m in compacted.messages] == [
        "system",
        "user",
        "assistant",
        "user",
    ]


def test_an_edited_past_is_a_rewrite_that_keeps_our_answers_before_the_edit() -> None:
    book = ThreadBook()
    turn(book, request(*HEAD), calling("1", "as sampled "))
    turn(book, request(*HEAD, calling("1", "as told"), result("1", "a long output")), calling("2"))
    pruned = book.observe(request(*HEAD, calling("1", "as told"), result("1", "[cleared]"), calling("2"), result("2")))
    assert pruned.kind is ObservationKind.REWRITE
    assert pruned.messages[2] == calling("1", "as sampled ")
    assert pruned.messages[3] == result("1", "[cleared]")


def test_a_new_tool_list_is_told() -> None:
    book = ThreadBook()
    turn(book, request(*HEAD), calling("1"))
    more = (*TOOLS, ToolSpec(name="read", description="", parameters={}))
    on = book.observe(request(*HEAD, calling("1"), result("1"), tools=more))
    assert (on.kind, on.tools) == (ObservationKind.APPEND, more)
