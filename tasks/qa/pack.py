"""The pack of a file of questions: `qa:questions.jsonl`, each question a task `qa:questions.jsonl#NAME`.

Options stand behind a question mark: `qa:FILE?seed=3&judge=1`. Nothing is written before a task is loaded; choices
stand in an order that seed and question decide, the same in every run. Reading a file twice reads it once while it
is unchanged.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from envkit.failure import UserError, did_you_mean
from envkit.task.names import is_slug, nearest
from envkit.tasks.qa.rows import Question, question_of, read_rows

if TYPE_CHECKING:
    from envkit.task import Task

__all__ = ["QuestionPack"]

_OPTIONS = ("seed", "judge")


class QuestionPack:
    """Questions of one file.

    Args:
        source: The file's path, and options behind a `?`: `seed` (in which order choices stand, 0 without it), `judge`
            (1: a model judges free answers in words).

    Raises:
        UserError: There is no such file, an option is unknown, or a row can't be asked; the message names every such
        row.
    """

    def __init__(self, source: str) -> None:
        path, _, options = source.partition("?")
        self.path = Path(path).expanduser().absolute()
        #: As the registry writes it into references, for processes with another working directory.
        self.source = f"{self.path}?{options}" if options else str(self.path)
        self.seed, self.judge = 0, False
        for key, value in parse_qsl(options, keep_blank_values=True):
            if key not in _OPTIONS:
                raise UserError(f"qa:{source}: unknown option {key!r}{did_you_mean(key, _OPTIONS)}; known: seed, judge")
            if not re.fullmatch(r"\d{1,9}", value) or (key == "judge" and value not in ("0", "1")):
                raise UserError(
                    f"qa:{source}: {key} must be {'0 or 1' if key == 'judge' else 'a number'}, found {value!r}"
                )
            if key == "seed":
                self.seed = int(value)
            else:
                self.judge = value == "1"
        self.name = re.sub(r"[^A-Za-z0-9._-]+", "-", self.path.stem).strip("-._") or "questions"
        self._read: tuple[tuple[int, int], dict[str, Question], str] | None = None

    @property
    def _questions(self) -> dict[str, Question]:
        return self._whole()[1]

    @property
    def version(self) -> str:
        """A digest of the questions and of the order of their choices."""
        return self._whole()[2]

    def _whole(self) -> tuple[tuple[int, int], dict[str, Question], str]:
        try:
            found = self.path.stat()
            facts = (found.st_mtime_ns, found.st_size)
        except OSError as error:
            raise UserError(f"there is no file of questions {self.path}: {error.strerror}") from error
        if self._read is None or self._read[0] != facts:
            questions = _named(self.path)
            content = hashlib.sha256(f"{self.seed} {self.judge}".encode())
            for name, question in questions.items():
                content.update(f"{name} {question.model_dump_json()}\n".encode("utf-8", "surrogatepass"))
            self._read = (facts, questions, content.hexdigest()[:12])
        return self._read

    def splits(self) -> tuple[str, ...]:
        return tuple(sorted({q.split for q in self._questions.values() if q.split is not None}))

    def ids(self, split: str | None = None) -> Sequence[str]:
        if split is not None and split not in self.splits():
            raise UserError(f"{self.path} has no split {split!r}{nearest(split, self.splits())}")
        return sorted(name for name, q in self._questions.items() if split is None or q.split == split)

    def load(self, name: str) -> Task:
        """Reads a question as a task, writing its directory at first use. Raises `UserError` for an unknown one."""
        from envkit.task import load_task_dir
        from envkit.tasks.qa.writing import FORM, write_question
        from envkit.worlds import build_world

        question = self._questions.get(name)
        if question is None:
            raise UserError(f"{self.path} has no question {name!r}{nearest(name, tuple(self._questions))}")
        content = repr((FORM, self.seed, self.judge, question.model_dump_json()))
        key = f"qa-{hashlib.sha256(content.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"
        folder = build_world(key, lambda target: write_question(question, target, seed=self.seed, judge=self.judge))
        return load_task_dir(folder, id=f"{self.name}/{name}")

    def world(self, task: Task) -> Path | None:
        """None: a question has no files."""
        return None


def _named(path: Path) -> dict[str, Question]:
    questions: dict[str, Question] = {}
    problems: list[str] = []
    for number, row in enumerate(read_rows(path)):
        try:
            question = question_of(row, number, str(path))
        except UserError as error:
            problems.append(str(error))
            continue
        own = question.id
        name = own if own is not None and is_slug(own) and own not in questions else f"q-{number:05d}"
        questions[name] = question
    if problems:
        more = f"\n  and {len(problems) - 10} more" if len(problems) > 10 else ""
        listed = "\n  ".join(problems[:10])
        raise UserError(f"{len(problems)} of {len(problems) + len(questions)} rows can't be asked:\n  {listed}{more}")
    if not questions:
        raise UserError(f"{path} holds no question")
    return questions
