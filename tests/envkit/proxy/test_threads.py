"""Requests told apart into threads: what appends, what is a rewrite, what stands apart."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

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


def test_an_answer_told_in_other_shapes_still_appends() -> None:
    book = ThreadBook()
    turn(book, request(*HEAD), calling("1", "I look."))
    # Text and calls as two messages.
    two = (AssistantMessage(text="I look."), calling("1"))
    second = turn(book, request(*HEAD, *two, result("1")), AssistantMessage(reasoning="only thought"))
    assert (second.kind, second.messages) == (ObservationKind.APPEND, (result("1"),))
    # An answer without a word is left out.
    on = Message(role="user", content="go on")
    third = turn(book, request(*HEAD, *two, result("1"), on), AssistantMessage(text="Done."))
    assert (third.kind, third.messages) == (ObservationKind.APPEND, (on,))
    # Reasoning is told in no form at all, white space is not ours.
    more = Message(role="user", content="and more")
    fourth = book.observe(request(*HEAD, *two, result("1"), on, AssistantMessage(text=" Done.\n"), more))
    assert (fourth.kind, fourth.messages) == (ObservationKind.APPEND, (more,))


def test_what_came_before_the_work_and_looked_like_it_gives_way() -> None:
    book = ThreadBook()
    quota = (Message(role="user", content="quota"),)
    first = turn(book, request(*quota, tools=()), AssistantMessage(text="ok"))
    assert first.thread == "main"
    work = turn(book, request(*HEAD), calling("1"))
    assert (work.thread, work.kind, work.tools) == ("main", ObservationKind.REWRITE, TOOLS)
    on = book.observe(request(*HEAD, calling("1"), result("1")))
    assert (on.thread, on.kind) == ("main", ObservationKind.APPEND)


def test_an_agent_whose_prompt_speaks_of_titles_further_down_is_at_work() -> None:
    book = ThreadBook()
    system = Message(role="system", content="You are an office worker. " * 20 + "Summarise reports under a title.")
    assert book.observe(request(system, TASK, tools=())).thread == "main"


def test_parallel_sub_agents_with_the_work_between_them() -> None:
    book = ThreadBook()
    few = (ToolSpec(name="grep", description="", parameters={}),)
    subs = [(SYSTEM, Message(role="user", content=f"Find {n}.")) for n in range(3)]
    turn(book, request(*HEAD), calling("1"))
    names = [turn(book, request(*sub, tools=few), calling(f"s{n}")).thread for n, sub in enumerate(subs)]
    # One that only shares the system text and the tools with another counts as a rewrite of that: a branch, no more.
    for n, sub in reversed(list(enumerate(subs))):
        told = request(*sub, calling(f"s{n}"), result(f"s{n}"), tools=few)
        on = turn(book, told, AssistantMessage(text=f"found {n}"))
        assert on.thread in names
        assert on.thread != "main"
        assert on.messages[-1] == result(f"s{n}")
    back = book.observe(request(*HEAD, calling("1"), result("1", "found")))
    assert (back.thread, back.kind) == ("main", ObservationKind.APPEND)


def test_threads_that_nobody_goes_back_to_are_forgotten() -> None:
    book = ThreadBook()
    turn(book, request(*HEAD), calling("1"))
    for number in range(300):
        asked = request(Message(role="user", content=f"title {number}"), tools=())
        turn(book, asked, AssistantMessage(text="t"))
    assert len(book._threads) <= 64
    back = book.observe(request(*HEAD, calling("1"), result("1")))
    assert (back.thread, back.kind) == ("main", ObservationKind.APPEND)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_a_policy_is_always_shown_what_the_agent_tells(data: st.DataObject) -> None:
    """Agents at random: several conversations, edits, forks, re-told answers. What the policy was shown in all is each
    time the conversation as the agent tells it, but for our own answers; and an append adds no words of ours."""
    book = ThreadBook()
    shown: dict[str, list[Any]] = {}
    talks: list[list[Any]] = []
    for count in range(data.draw(st.integers(1, 12))):
        what = data.draw(st.sampled_from(["new", "on", "on", "on", "edit", "fork", "again"]))
        if what == "new" or not talks:
            talks.append([SYSTEM, Message(role="user", content=data.draw(st.sampled_from(["a", "b", "c"])))])
        talk = data.draw(st.sampled_from(talks))
        if what == "on":
            talk.append(Message(role="user", content=f"more {data.draw(st.integers(0, 2))}"))
        elif what == "edit":
            at = data.draw(st.integers(0, len(talk) - 1))
            if isinstance(talk[at], Message):
                talk[at] = talk[at].model_copy(update={"content": "edited"})
        elif what == "fork":
            talk = [*talk[: data.draw(st.integers(1, len(talk)))], Message(role="user", content="else")]
            talks.append(talk)
        tools = TOOLS if data.draw(st.booleans()) else ()
        observation = book.observe(request(*talk, tools=tools))
        if observation.kind is ObservationKind.APPEND and observation.thread in shown:
            assert not any(isinstance(m, AssistantMessage) for m in observation.messages)
            shown[observation.thread] += observation.messages
        else:
            shown[observation.thread] = list(observation.messages)
        assert shown[observation.thread] == talk
        answer = data.draw(st.sampled_from([calling(f"c{count}"), AssistantMessage(text=f"said {count}")]))
        book.replied(observation.thread, answer)
        shown[observation.thread].append(answer)
        talk.append(answer)
        if answer.tool_calls:
            talk.append(result(f"c{count}"))
