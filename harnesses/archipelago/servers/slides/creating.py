"""The tools that make and remove decks and slides: create_deck, delete_deck, add_slide."""

from __future__ import annotations

import io

from pptx.presentation import Presentation
from pptx.slide import Slide

from envkit.harnesses.archipelago.servers.app import ToolError
from envkit.harnesses.archipelago.servers.context import Context
from envkit.harnesses.archipelago.servers.slides import arguments as args
from envkit.harnesses.archipelago.servers.slides import placeholders, results
from envkit.harnesses.archipelago.servers.slides.deckfile import DeckFile, deck_path, set_metadata
from envkit.harnesses.archipelago.servers.slides.fields import Bullets, Layout, SlideBlock
from envkit.harnesses.archipelago.servers.slides.filling import fill_slide
from envkit.harnesses.archipelago.servers.slides.slides import find_layout, new_slide, slide_elements
from envkit.harnesses.archipelago.servers.slides.template import BODY_SIZE, SUBTITLE_SIZE, TITLE_SIZES, empty_deck
from envkit.office.deck import read_deck
from envkit.office.problem import Unreadable

__all__ = ["add_slide", "create_deck", "delete_deck", "insert_slide"]


def create_deck(arguments: args.CreateDeck, context: Context) -> results.CreateDeckResult:
    """Makes a deck; one of the same name is replaced, and the result says so."""
    name = arguments.file_name.strip()
    if not name or "/" in name or name in (".", ".."):
        raise ToolError(f"file_name is the name alone, such as q3.pptx; found {arguments.file_name!r}")
    if not name.lower().endswith(".pptx"):
        if "." in name:
            raise ToolError(f"file_name must end in .pptx, found {name!r}")
        name += ".pptx"
    folder = context.path(arguments.directory)
    if folder.exists() and not folder.is_dir():
        raise ToolError(f"directory {context.shown(folder)} is a file, not a folder")
    path = deck_path(f"{arguments.directory.rstrip('/')}/{name}", context, must_exist=None)
    replaced = path.exists()
    deck = empty_deck()
    said: list[str] = []
    for number, block in enumerate(arguments.slides):
        slide = new_slide(deck, find_layout(deck, block.layout, None), number)
        sizes = (TITLE_SIZES.get(block.layout, TITLE_SIZES["title_only"]), SUBTITLE_SIZE, BODY_SIZE)
        try:
            said += [f"slide {number}: {text}" for text in fill_slide(slide, block, sizes=sizes)]
        except ToolError as error:
            raise ToolError(f"slides[{number}]: {error}; nothing was written") from error
    deck.core_properties.created = deck.core_properties.modified = context.now().replace(tzinfo=None)
    set_metadata(deck, arguments.metadata)
    out = io.BytesIO()
    deck.save(out)
    context.write(path, out.getvalue())
    shown, count = context.shown(path), len(arguments.slides)
    done = f"{'replaced' if replaced else 'made'} {shown} with {count} slide" + ("" if count == 1 else "s")
    return results.CreateDeckResult(file_name=name, file_path=shown, slides=count, message="; ".join([done, *said]))


def delete_deck(arguments: args.DeleteDeck, context: Context) -> results.DeleteDeckResult:
    """Deletes a deck."""
    path = deck_path(arguments.file_path, context)
    shown = context.shown(path)
    if not path.is_file():
        raise ToolError(f"{shown} is not a file")
    try:
        slides = f" ({len(context.parse(path, read_deck).slides)} slides)"
    except (Unreadable, ToolError):
        slides = ""  # what can't be read can be deleted all the same
    try:
        path.unlink()
    except OSError as error:
        raise ToolError(f"{shown} can't be deleted: {error.strerror}") from error
    return results.DeleteDeckResult(file_path=shown, message=f"deleted {shown}{slides}")


def add_slide(arguments: args.AddSlide, context: Context) -> results.AddSlideResult:
    """Puts a new slide into a deck."""
    deck = DeckFile(arguments.file_path, context)
    said = insert_slide(
        deck, arguments.index, arguments.layout, arguments.title, arguments.subtitle, arguments.bullets, "index"
    )
    total = len(deck.slides)
    deck.save()
    done = f"put a {arguments.layout} slide in at index {arguments.index}; the deck now has {total} slide" + (
        "" if total == 1 else "s"
    )
    return results.AddSlideResult(
        index=arguments.index, file_path=deck.shown, total_slides=total, message="; ".join([done, *said])
    )


def insert_slide(
    deck: DeckFile,
    index: int,
    layout: Layout,
    title: str | None,
    subtitle: str | None,
    bullets: list[str] | None,
    name: str,
) -> list[str]:
    """Puts a new slide in and returns what there is to say about it. Raises `ToolError`."""
    presentation = deck.presentation
    count = len(slide_elements(presentation))
    if index > count:
        raise ToolError(f"{name} {index} is beyond the end: the deck has {count} slides, so it may be 0 to {count}")
    slides = deck.slides
    beside = slides[index - 1] if index else (slides[0] if slides else None)
    slide = new_slide(presentation, find_layout(presentation, layout, beside), index)
    items = Bullets(items=bullets) if bullets is not None else None
    block = SlideBlock.model_validate({"layout": layout, "title": title, "subtitle": subtitle, "bullets": items})
    return fill_slide(slide, block, sizes=_sizes(presentation, slide))


def _sizes(presentation: Presentation, slide: Slide) -> tuple[float, float, float]:
    """The sizes that text has on a slide, by its layout and master."""
    found: list[float] = []
    for where, usual in (("title", 40.0), ("subtitle", 24.0), ("body", 24.0)):
        found.append(placeholders.text_size(slide, where) or usual)
    return found[0], found[1], found[2]
