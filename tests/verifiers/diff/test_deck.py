"""The diff of decks: an edit is one finding with an address, noise is none, and it mirrors."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pptx
from hypothesis import given, settings
from hypothesis import strategies as st
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches

from envkit.office.deck import Box, Deck, Shape, Slide, SlideParagraph, TextRun, read_deck
from envkit.verifiers.diff.deck import diff_deck
from envkit.verifiers.diff.finding import Change, Finding


def made(change: Callable[[Any], object] = lambda deck: None) -> Deck:
    deck = pptx.Presentation()
    for title, text in (("Start", "Welcome everybody"), ("Middle", "Numbers and words"), ("End", "Thanks for coming")):
        slide = deck.slides.add_slide(deck.slide_layouts[1])
        slide.shapes.title.text, slide.placeholders[1].text = title, text
    group = deck.slides[1].shapes.add_group_shape()
    group.shapes.add_textbox(Inches(1), Inches(5), Inches(2), Inches(1)).text_frame.text = "In a group"
    data = CategoryChartData()
    data.categories = ["a", "b"]
    data.add_series("Sales", (1, 2))
    deck.slides[2].shapes.add_chart(XL_CHART_TYPE.PIE, 0, 0, Inches(2), Inches(2), data)
    change(deck)
    out = io.BytesIO()
    deck.save(out)
    return read_deck(out.getvalue())


def only(change: Callable[[Any], object]) -> Finding:
    before, after = made(), made(change)
    (finding,) = diff_deck(before, after)
    assert diff_deck(after, before) == [finding.mirrored()]
    return finding


def test_texts_are_addressed_by_slide_and_shape() -> None:
    def change(deck: Any) -> None:
        deck.slides[0].shapes.title.text_frame.paragraphs[0].runs[0].text = "Start over"

    found = only(change)
    assert (found.where, found.kind, found.after) == ('slide 1 / "Title 1"', "text", "Start over")

    def grouped(deck: Any) -> None:
        deck.slides[1].shapes[2].shapes[0].text_frame.text = "In this group"

    assert only(grouped).where == 'slide 2 / "TextBox 4"'


def test_slides_that_come_go_hide_and_move() -> None:
    def move(deck: Any) -> None:
        deck.slides._sldIdLst.insert(0, deck.slides._sldIdLst[-1])

    found = only(move)
    assert (found.kind, found.change, found.where, found.to) == ("slide", Change.MOVED, "slide 3", "slide 1")

    def drop(deck: Any) -> None:
        deck.slides._sldIdLst.remove(deck.slides._sldIdLst[0])

    found = only(drop)
    assert (found.kind, found.change, found.before) == ("slide", Change.REMOVED, "Start")
    assert only(lambda deck: deck.slides[1]._element.set("show", "0")).kind == "slide.hidden"


def test_charts_by_point_and_notes() -> None:
    def change(deck: Any) -> None:
        data = CategoryChartData()
        data.categories = ["a", "b"]
        data.add_series("Sales", (1, 5))
        deck.slides[2].shapes[-1].chart.replace_data(data)

    found = only(change)
    assert (found.kind, found.before, found.after) == ("chart.value", "Sales, b: 2", "Sales, b: 5")

    def speak(deck: Any) -> None:
        deck.slides[0].notes_slide.notes_text_frame.text = "Smile"

    found = only(speak)
    assert (found.where, found.kind, found.change, found.after) == ("slide 1 / notes", "notes", Change.ADDED, "Smile")


def test_a_moved_shape_and_an_added_one() -> None:
    def shift(deck: Any) -> None:
        deck.slides[2].shapes[-1].left = Inches(1)

    assert only(shift).kind == "shape.position"

    def add(deck: Any) -> None:
        deck.slides[0].shapes.add_textbox(0, 0, Inches(1), Inches(1)).text_frame.text = "Zebra"

    found = only(add)
    assert (found.kind, found.change, found.after) == ("shape", Change.ADDED, "Zebra")


TEXTS = st.sampled_from(["", "Sales rose", "Sales rose much", "Zebras", "Costs fell"])


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    paragraphs = tuple(
        SlideParagraph((TextRun(t),) if (t := draw(TEXTS)) else (), draw(st.integers(0, 1)))
        for _ in range(draw(st.integers(0, 3)))
    )
    box = Box(draw(st.sampled_from([0.0, 90.0])), 10.0, 100.0, 50.0)
    return Shape("text", draw(st.sampled_from("ab")), draw(st.sampled_from(["", "title"])), paragraphs, box=box)


@st.composite
def decks(draw: st.DrawFn) -> Deck:
    slides = []
    for number in range(draw(st.integers(0, 4))):
        found = tuple(draw(st.lists(shapes(), max_size=3)))
        texts = tuple(s.text for s in found if s.text.strip())
        title = next((s.text for s in found if s.placeholder), "")
        notes, hidden = draw(TEXTS), draw(st.booleans())
        slides.append(Slide(number + 1, title, texts, (), 0, 0, notes, hidden, "Layout", found))
    return Deck(tuple(slides))


@settings(max_examples=50, deadline=None)
@given(decks(), decks())
def test_the_diff_mirrors_and_equal_decks_differ_in_nothing(a: Deck, b: Deck) -> None:
    assert {f.mirrored() for f in diff_deck(a, b)} == set(diff_deck(b, a))
    assert diff_deck(a, a) == []
