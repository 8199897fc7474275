"""The judge of Word documents."""

from __future__ import annotations

from envkit.office.document import Comment, Document, read_document
from envkit.verifiers.judging import Context, Finding, text_misses
from envkit.verifiers.kinds.tables import count_misses, ordered_misses, table_misses
from envkit.verifiers.phrases import Miss, find_phrase, normalise
from envkit.verifiers.schema import CommentSpec, DocumentCheck
from envkit.verifiers.values import Alternatives

__all__ = ["judge_document"]


def _text_within(document: Document, within: str) -> str:
    match within:
        case "headings":
            return "\n".join(p.text for p in document.headings)
        case "tables":
            return "\n".join(" | ".join(row) for table in document.tables for row in table.rows)
        case "headers_footers":
            return "\n".join(document.headers_footers)
        case "comments":
            return "\n".join(document.comments)
        case "footnotes":
            return "\n".join(document.footnotes)
        case "all":
            others = (*document.headers_footers, *document.footnotes, *document.comments)
            return "\n".join([document.body, *others])
        case _:
            return document.body


def judge_document(check: DocumentCheck, context: Context) -> Finding:
    document = context.load(check.path, read_document)
    where = "/" + check.path
    text = _text_within(document, check.within)
    place = where if check.within == "body" else f"{where} ({check.within.replace('_', ' and ')})"
    misses, stated = text_misses(check, [text], place, None)
    misses += ordered_misses(
        check.headings, [p.text for p in document.headings], check.headings_in_order, "heading", where
    )
    misses += count_misses(len(document.tables), "tables", None, check.min_tables, None)
    misses += table_misses(check.tables, [t.rows for t in document.tables], where)
    for wanted in check.styles:
        holders = [p for p in document.paragraphs if find_phrase(normalise(p.text), wanted.contains) >= 0]
        if not any(p.style.casefold() == wanted.style.casefold() for p in holders):
            found = ", ".join(sorted({p.style for p in holders})) or "no such paragraph"
            expected = f"{wanted.contains!r} in style {wanted.style!r}"
            misses.append(Miss(expected, found, f"{where} has no paragraph {expected} (found: {found})"))
    misses += count_misses(len(document.body.split()), "words", None, check.min_words, check.max_words)
    tracked = bool(document.insertions or document.deletions)
    if check.tracked_changes is not None and tracked != check.tracked_changes:
        wanted_text = "tracked changes" if check.tracked_changes else "no tracked changes"
        misses.append(Miss(wanted_text, str(tracked), f"{where} must have {wanted_text}"))
    for phrases, texts, what in ((check.inserted, document.insertions, "insertion"),
                                 (check.deleted, document.deletions, "deletion")):  # fmt: skip
        for phrase in phrases:
            if not any(_says(text, phrase) for text in texts):
                shown = "; ".join(texts)[:300] or "none"
                misses.append(
                    Miss(f"a tracked {what} of {phrase!r}", shown, f"{where}: no tracked {what} has {phrase!r}")
                )
    for comment in check.comments:
        if not any(_is_comment(remark, comment) for remark in document.remarks):
            told = ", ".join(f"{k} = {v!r}" for k, v in comment.model_dump(exclude_none=True).items())
            shown = "; ".join(f"{r.author}: {r.text}" for r in document.remarks)[:300] or "no comments"
            misses.append(Miss(f"a comment with {told}", shown, f"{where} has no comment with {told}"))
    misses += count_misses(document.pictures, "pictures", None, check.min_images, None)
    bare = sum(not image.alt.strip() for image in document.images)
    if check.images_described and bare:
        misses.append(
            Miss("described pictures", f"{bare} without", f"{where}: {bare} pictures have no alternative text")
        )
    return Finding(misses, actual=stated or None, where=where)


def _says(text: str, phrase: Alternatives) -> bool:
    plain = normalise(text)
    return any(find_phrase(plain, spelling) >= 0 for spelling in ((phrase,) if isinstance(phrase, str) else phrase))


def _is_comment(remark: Comment, wanted: CommentSpec) -> bool:
    return (
        (wanted.contains is None or _says(remark.text, wanted.contains))
        and (wanted.anchor is None or _says(remark.anchor, wanted.anchor))
        and (wanted.author is None or remark.author.strip().casefold() == wanted.author.strip().casefold())
    )
