"""Slide decks (pptx) as slides with shapes, titles, texts, tables, charts, notes and comments.

Shapes are walked recursively through groups; a table's and a chart's text counts as text of the slide; diagrams
(SmartArt) give the text of their data part. Slides are in the order in which they are shown; hidden ones are flagged.
Transitions and animations are not read. Used by verifiers, the diff and the tool servers.
"""

from __future__ import annotations

from envkit.office.deck.model import Box, Deck, Shape, Slide, SlideCell, SlideComment, SlideParagraph, TextRun
from envkit.office.deck.reader import read_deck

__all__ = ["Box", "Deck", "Shape", "Slide", "SlideCell", "SlideComment", "SlideParagraph", "TextRun", "read_deck"]
