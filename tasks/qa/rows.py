"""Rows of questions as others publish them, read into one shape.

Keys are looked for under the names that are common (`question`, `problem`, `prompt`; `answer`, `target`; `choices`,
`options`; GPQA's `Correct Answer` and `Incorrect Answer 1..3`; ARC's `{text, label}`). What can't be asked in words (a
question with an image) or has no answer is refused, with its row. Pure functions over files and dicts.
"""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from envkit.failure import FailureKind, UserError, did_you_mean

__all__ = ["KINDS", "Question", "question_of", "read_rows", "shuffled"]

KINDS = ("choice", "numeric", "exact", "judge")
Kind = Literal["choice", "numeric", "exact", "judge"]

_QUESTION = ("question", "problem", "prompt", "query", "input")
_ANSWER = (
    "answer",
    "target",
    "correct answer",
    "correct_answer",
    "answer_key",
    "answerkey",
    "gold",
    "label",
    "solution",
)
_CHOICES = ("choices", "options", "endings")
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_NUMBER = re.compile(r"[-+−]?(\d{1,3}(,\d{3})+|\d+)?(\.\d+)?([eE][-+]?\d+)?")


class Question(BaseModel):
    """One question.

    Attributes:
        id: Its own, where the row has one.
        answer: The right answer: a choice's text, a number as written, a text.
        choices: In the order of the file; empty for a free answer.
        correct: Index of the right choice.
        tolerance: Of a numeric answer, as a share of it.
        group: Questions with the same one (a passage, an exam) rise and fall together.
        domain: Its subject.
        split: `train` or `eval`, where the row says so.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str | None
    question: str
    answer: str
    kind: Kind
    choices: tuple[str, ...] = ()
    correct: int | None = None
    tolerance: float = 0.0
    group: str | None = None
    domain: str | None = None
    split: Literal["train", "eval"] | None = None


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a JSONL, JSON (a list) or parquet file.

    Raises:
        UserError: There is no such file, it can't be read, or a row is no object; parquet needs pyarrow.
    """
    if not path.is_file():
        raise UserError(f"there is no file {path}; expected questions as .jsonl, .json or .parquet")
    if path.suffix.casefold() in (".parquet", ".pq"):
        yield from _parquet(path)
        return
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} can't be read as UTF-8 text: {error}") from error
    if path.suffix.casefold() == ".json":
        listed = _json(text, str(path))
        if not isinstance(listed, list):
            raise UserError(f"{path} must hold a list of questions, found {type(listed).__name__}")
    else:
        # not splitlines: a JSON text may hold other line separators inside strings
        lines = (line for line in enumerate(text.split("\n"), start=1) if line[1].strip())
        listed = [_json(line, f"{path}:{number}") for number, line in lines]
    for number, row in enumerate(listed):
        if not isinstance(row, dict):
            raise UserError(f"{path}: row {number} must be an object, found {type(row).__name__}")
        yield row


def _json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where} is not valid JSON: {error}") from error


def _parquet(path: Path) -> Iterator[dict[str, Any]]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise UserError(
            f"reading {path.name} needs the package pyarrow: pip install 'envkit-rl[qa]', or write it as JSONL",
            kind=FailureKind.CAPABILITY,
        ) from error
    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=1024):
                yield from batch.to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        raise UserError(f"{path} can't be read as parquet: {error}") from error


def question_of(row: Mapping[str, Any], number: int, source: str) -> Question:
    """One row as a question.

    Args:
        number, source: Where the row is, for messages.

    Raises:
        UserError: It has no question or no answer in words, or the answer is none of its choices.
    """
    where = f"{source}, row {number}"
    keys = {key.casefold(): key for key in row}
    text = _first(row, keys, _QUESTION)
    if not isinstance(text, str) or not text.strip():
        raise UserError(
            f"{where} has no question; expected a text under one of {', '.join(_QUESTION)}; found {list(row)}"
        )
    if row.get("image") or row.get("images"):
        raise UserError(f"{where} has an image, which a question in words can't show")
    answer = _first(row, keys, _ANSWER)
    if isinstance(answer, list) and len(answer) == 1:
        answer = answer[0]
    choices, labels = _choices(row, keys)
    kind = _kind(row, keys, where)
    common: dict[str, Any] = {
        "id": _text(row, keys, ("id", "question_id", "qid", "record id", "uid")),
        "question": text.strip(),
        "group": _text(row, keys, ("group", "world", "passage_id", "article_id")),
        "domain": _text(row, keys, ("domain", "category", "subject", "high-level domain", "subdomain")),
        "split": _split(row, keys),
    }
    if choices and kind in (None, "choice"):
        if "correct answer" in keys and "incorrect answer 1" in keys:
            correct = 0
        else:
            correct = _correct(answer, choices, labels, where)
        return Question(kind="choice", answer=choices[correct], choices=tuple(choices), correct=correct, **common)
    if kind == "choice":
        raise UserError(f"{where} is to be answered by a choice, but has no choices")
    if isinstance(answer, bool) or answer is None or (isinstance(answer, str) and not answer.strip()):
        raise UserError(f"{where} has no answer; expected one under one of {', '.join(_ANSWER)}")
    if not isinstance(answer, str | int | float):
        raise UserError(f"{where}: the answer must be a text or a number, found {type(answer).__name__}")
    if isinstance(answer, float) and not math.isfinite(answer):
        raise UserError(f"{where}: the answer is {answer}, which is what a broken table leaves; expected a number")
    said = _final(str(answer)) if isinstance(answer, str) else repr(answer)
    numeric = is_number(said)
    if kind == "numeric" and not numeric:
        raise UserError(f"{where}: the answer {said!r} is no number")
    return Question(
        kind=kind or ("numeric" if numeric else "exact"),
        answer=said,
        tolerance=_tolerance(row, keys, where),
        **common,
    )


def shuffled(question: Question, seed: int) -> tuple[tuple[str, ...], str]:
    """The choices in the order in which they are shown, and the letter of the right one; the same for the same seed and
    question, whatever else is in the file."""
    assert question.correct is not None
    order = list(range(len(question.choices)))
    random.Random(f"qa/{seed}/{question.question}").shuffle(order)
    return tuple(question.choices[n] for n in order), _LETTERS[order.index(question.correct)]


def is_number(text: str) -> bool:
    """Whether a text is one plain number, thousands separators allowed."""
    stripped = text.strip().replace("−", "-")
    return bool(re.search(r"\d", stripped)) and _NUMBER.fullmatch(stripped) is not None


def _first(row: Mapping[str, Any], keys: Mapping[str, str], names: Sequence[str]) -> Any:
    return next((row[keys[name]] for name in names if name in keys and row[keys[name]] is not None), None)


def _text(row: Mapping[str, Any], keys: Mapping[str, str], names: Sequence[str]) -> str | None:
    value = _first(row, keys, names)
    return str(value) if isinstance(value, str | int) and str(value).strip() else None


def _split(row: Mapping[str, Any], keys: Mapping[str, str]) -> str | None:
    said = (_text(row, keys, ("split",)) or "").casefold()
    return "train" if said == "train" else "eval" if said in ("eval", "test", "validation", "dev") else None


def _kind(row: Mapping[str, Any], keys: Mapping[str, str], where: str) -> Kind | None:
    said = _text(row, keys, ("kind", "answer_type"))
    names: dict[str, Kind] = {
        "choice": "choice", "multiplechoice": "choice", "numeric": "numeric", "number": "numeric", "float": "numeric",
        "exact": "exact", "string": "exact", "judge": "judge", "free": "judge",
    }  # fmt: skip
    if said is None or said.casefold().replace("_", "") == "exactmatch":
        return None
    found = names.get(said.casefold().replace("_", ""))
    if found is None:
        raise UserError(f"{where}: unknown kind {said!r}{did_you_mean(said, KINDS)}; known: {', '.join(KINDS)}")
    return found


def _choices(row: Mapping[str, Any], keys: Mapping[str, str]) -> tuple[list[str], list[str]]:
    wrong = [keys[key] for key in sorted(keys) if re.fullmatch(r"incorrect answer \d+", key)]
    if wrong and "correct answer" in keys:
        return [str(row[key]).strip() for key in (keys["correct answer"], *wrong) if row[key] is not None], []
    given = _first(row, keys, _CHOICES)
    if isinstance(given, str) and given.lstrip().startswith(("[", "{")):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError):
            given = None
    if isinstance(given, dict) and isinstance(given.get("text"), list):
        texts, labels = given["text"], given.get("label")
        if not isinstance(labels, list) or len(labels) != len(texts):
            labels = []
        return [str(text).strip() for text in texts], [str(label) for label in labels]
    if isinstance(given, dict):
        return [str(text).strip() for text in given.values()], [str(label) for label in given]
    return ([str(text).strip() for text in given], []) if isinstance(given, list) and given else ([], [])


def _correct(answer: Any, choices: Sequence[str], labels: Sequence[str], where: str) -> int:
    if len(choices) > len(_LETTERS) or len(choices) < 2:
        raise UserError(f"{where} has {len(choices)} choices; expected 2 to {len(_LETTERS)}")
    if len(set(choices)) < len(choices):
        raise UserError(f"{where} has the same choice twice")
    if isinstance(answer, int) and not isinstance(answer, bool):
        if str(answer) in labels:
            return labels.index(str(answer))
        if 0 <= answer < len(choices):
            return answer
    if isinstance(answer, str):
        said = answer.strip()
        if said in choices:
            return choices.index(said)
        if said in labels:
            return labels.index(said)
        letter = said.strip("().").upper()
        if len(letter) == 1 and letter in _LETTERS[: len(choices)]:
            return _LETTERS.index(letter)
        if said.isdecimal() and len(said) < 4 and int(said) < len(choices):
            return int(said)
    raise UserError(f"{where}: the answer {answer!r} is none of its {len(choices)} choices")


def _tolerance(row: Mapping[str, Any], keys: Mapping[str, str], where: str) -> float:
    value = _first(row, keys, ("tolerance", "rel_tol"))
    if value is None:
        return 0.0
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1 or not math.isfinite(value):
        raise UserError(f"{where}: tolerance must be a share of the answer, from 0 to below 1, found {value!r}")
    return float(value)


def _final(answer: str) -> str:
    """The final part of a worked answer, as GSM8K (`#### 42`) and MATH (`\\boxed{42}`) mark it."""
    marked = re.search(r"####\s*(.+?)\s*$", answer)
    boxed = re.findall(r"\\boxed\{([^{}]*)\}", answer)
    return marked[1] if marked else boxed[-1].strip() if boxed else answer.strip()
