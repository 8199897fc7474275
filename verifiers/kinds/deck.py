"""The judge of slide decks."""

from __future__ import annotations

from envkit.office.deck import Slide, read_deck
from envkit.verifiers.judging import AgentFault, Context, Finding, text_misses
from envkit.verifiers.kinds.tables import count_misses, ordered_misses, table_misses
from envkit.verifiers.phrases import Miss, fold
from envkit.verifiers.schema import DeckCheck

__all__ = ["judge_deck"]


def _chosen(check: DeckCheck, slides: list[Slide], where: str) -> tuple[list[Slide], str]:
    """The slides that the rules look at, and what to call them."""
    if check.slide is None:
        return slides, where
    if isinstance(check.slide, int):
        if check.slide > len(slides):
            raise AgentFault(f"{where} has {len(slides)} slides, there is no slide {check.slide}", where=where)
        return [slides[check.slide - 1]], f"{where} slide {check.slide}"
    spellings = {fold(s) for s in ((check.slide,) if isinstance(check.slide, str) else check.slide)}
    found = [s for s in slides if fold(s.title) in spellings]
    if not found:
        titles = "; ".join(s.title or "(none)" for s in slides)
        raise AgentFault(f"{where} has no slide titled {check.slide!r}; titles: {titles}"[:600], where=where)
    return found, f"{where} slide {found[0].number}"


def judge_deck(check: DeckCheck, context: Context) -> Finding:
    deck = context.load(check.path, read_deck)
    where = "/" + check.path
    slides = list(deck.slides if check.include_hidden else deck.shown)
    misses = count_misses(len(slides), "slides", check.slides, check.min_slides, check.max_slides)
    chosen, place = _chosen(check, slides, where)
    match check.within:
        case "titles":
            text = "\n".join(s.title for s in chosen)
        case "notes":
            text, place = "\n".join(s.notes for s in chosen), f"{place} (notes)"
        case "comments":
            text, place = "\n".join(c.text for s in chosen for c in s.comments), f"{place} (comments)"
        case _:
            text = "\n".join(s.text for s in chosen)
    more, stated = text_misses(check, [text], place, None)
    misses += more
    misses += ordered_misses(check.titles, [s.title for s in slides], check.titles_in_order, "slide titled", where)
    misses += table_misses(check.tables, [rows for s in chosen for rows in s.tables], place)
    misses += count_misses(sum(len(s.tables) for s in chosen), "tables", None, check.min_tables, None)
    misses += count_misses(sum(s.charts for s in chosen), "charts", None, check.min_charts, None)
    misses += count_misses(sum(s.pictures for s in chosen), "pictures", None, check.min_pictures, None)
    for slide in chosen:
        at = f"{where} slide {slide.number}"
        misses += count_misses(len(slide.text.split()), "words on it", None, None, check.max_words, at)
        if check.layout is not None and fold(slide.layout) != fold(check.layout):
            misses.append(Miss(f"layout {check.layout!r}", slide.layout, f"{at} has the layout {slide.layout!r}", at))
        bare = sum(shape.image is not None and not shape.alt.strip() for shape in slide.shapes)
        if check.images_described and bare:
            misses.append(
                Miss("described pictures", f"{bare} without", f"{at}: {bare} pictures have no description", at)
            )
    return Finding(misses, actual=stated or None, where=place)
