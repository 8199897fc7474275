"""Question files as packs: what is read from rows, in which order choices stand, what counts as the right answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from envkit import registry
from envkit.failure import UserError
from envkit.tasks.qa import QuestionPack
from envkit.tasks.qa.rows import question_of, read_rows, shuffled
from envkit.tasks.qa.writing import write_question
from envkit.verifiers.judging import text_misses
from envkit.verifiers.schema import AnswerCheck, JudgeCheck, load_checks

GPQA = {"Question": "Which?", "Correct Answer": "alpha", **{f"Incorrect Answer {n}": f"wrong {n}" for n in (1, 2, 3)}}


@pytest.mark.parametrize(
    ("row", "kind", "answer"),
    [
        ({"question": "q", "choices": ["x", "y"], "answer": "B"}, "choice", "y"),
        ({"question": "q", "choices": ["x", "y"], "answer": 0}, "choice", "x"),
        ({"question": "q", "options": ["x", "y"], "answer": "y"}, "choice", "y"),
        ({"question": "q", "choices": {"text": ["x", "y"], "label": ["1", "2"]}, "answerKey": "2"}, "choice", "y"),
        (GPQA, "choice", "alpha"),
        ({"problem": "q", "answer": "1,234.5"}, "numeric", "1,234.5"),
        ({"question": "q", "answer": "so 6 x 7 is\n#### 42"}, "numeric", "42"),
        ({"problem": "q", "solution": "thus \\boxed{7}"}, "numeric", "7"),
        ({"question": "q", "answer": "Sirius", "answer_type": "exactMatch"}, "exact", "Sirius"),
        ({"question": "q", "answer": "3", "kind": "exact"}, "exact", "3"),
        ({"question": "q", "answer": "because", "kind": "judge"}, "judge", "because"),
    ],
)
def test_rows_of_common_sets_are_understood(row: dict[str, Any], kind: str, answer: str) -> None:
    question = question_of(row, 0, "file")
    assert (question.kind, question.answer) == (kind, answer)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"answer": "x"}, "no question"),
        ({"question": "q"}, "no answer"),
        ({"question": "q", "choices": ["x", "y"], "answer": "z"}, "none of its 2 choices"),
        ({"question": "q", "choices": ["x", "x"], "answer": "A"}, "twice"),
        ({"question": "q", "answer": "x", "image": "data:"}, "image"),
        ({"question": "q", "answer": "x", "kind": "numeric"}, "no number"),
        ({"question": "q", "answer": float("nan")}, "broken table"),
        ({"question": "q", "answer": float("-inf")}, "broken table"),
        ({"question": "q", "choices": ["x", "y"], "answer": "1" * 5000}, "none of its 2 choices"),
        ({"question": "q", "choices": {"text": ["x", "y"], "label": ["1", "2", "3"]}, "answer": "3"}, "none of its 2"),
        ({"question": "q", "choices": {"text": ["x", "y"], "label": 5}, "answer": "z"}, "none of its 2"),
        ({"question": "q", "choices": "[" * 100_000, "kind": "choice", "answer": "x"}, "no choices"),
        ({"question": "q", "answer": "x", "kind": "numerik"}, "did you mean 'numeric'"),
    ],
)
def test_a_row_that_cant_be_asked_is_refused_with_its_place(row: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError, match=told) as caught:
        question_of(row, 7, "file")
    assert "row 7" in str(caught.value)


def test_the_order_of_choices_is_the_seeds_and_not_the_files() -> None:
    question = question_of({"question": "q", "choices": list("abcdefgh"), "answer": "A"}, 0, "file")
    again = question_of({"question": "q", "choices": list("abcdefgh"), "answer": "A"}, 99, "other")
    choices, letter = shuffled(question, 0)
    assert shuffled(again, 0) == (choices, letter)
    assert shuffled(question, 1) != (choices, letter)
    assert choices["ABCDEFGH".index(letter)] == "a"
    letters = [shuffled(question_of({**GPQA, "Question": f"q{n}"}, n, "f"), 0)[1] for n in range(200)]
    assert all(30 <= letters.count(letter) <= 70 for letter in "ABCD")


def passes(row: dict[str, Any], folder: Path, said: str) -> bool:
    target = folder / str(len(list(folder.iterdir())))
    target.mkdir()
    write_question(question_of(row, 0, "file"), target)
    (check,) = load_checks(target / "tests" / "verifier.toml").check
    assert isinstance(check, AnswerCheck)
    misses, _ = text_misses(check, [said], "the answer", 8)
    return not misses


def test_only_the_last_line_that_answers_counts(tmp_path: Path) -> None:
    row = {"question": "q", "choices": ["Paris", "Rome"], "answer": "A"}
    right = shuffled(question_of(row, 0, "f"), 0)[1]
    wrong = "AB".replace(right, "")
    assert passes(row, tmp_path, f"Answer: {right}")
    assert passes(row, tmp_path, f"I thought Answer: {wrong}, but no.\n\n**Answer:** ({right})")
    assert passes(row, tmp_path, f"So:\nanswer: {right}) Paris.")
    assert not passes(row, tmp_path, f"Answer: {right}\nAnswer: {wrong}")
    assert not passes(row, tmp_path, f"Answer: {right} or {wrong}")
    assert not passes(row, tmp_path, f"{wrong}")
    assert not passes(row, tmp_path, f"Answer: {wrong}")


def test_numbers_are_compared_as_numbers_and_texts_as_words(tmp_path: Path) -> None:
    number = {"question": "q", "answer": 1234.5}
    assert passes(number, tmp_path, "There are 3 parts.\nAnswer: 1,234.5")
    assert not passes(number, tmp_path, "Answer: 1,234.6")
    assert not passes(number, tmp_path, "Answer: 12\nor Answer: 1234.5 maybe, or Answer: 7")
    near = {"question": "q", "answer": 100, "tolerance": 0.02}
    assert passes(near, tmp_path, "Answer: 101.5")
    text = {"question": "q", "answer": "William  Shakespeare"}
    assert passes(text, tmp_path, "Answer: *william shakespeare*.")
    assert not passes(text, tmp_path, "Answer: not William Shakespeare")


def test_free_answers_can_go_to_a_judge(tmp_path: Path) -> None:
    write_question(question_of({"question": "q", "answer": "Sirius"}, 0, "f"), tmp_path, judge=True)
    (check,) = load_checks(tmp_path / "tests" / "verifier.toml").check
    assert isinstance(check, JudgeCheck)
    assert "Sirius" in check.criterion


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    rows = [
        {"id": "capital", "question": "Capital?", "choices": ["Paris", "Rome"], "answer": "A", "split": "test"},
        {"question": "6 x 7?", "answer": 42, "split": "train", "group": "sums, 1"},
        {"question": "line\u2028separator", "answer": "yes"},
    ]
    file = tmp_path / "my, questions.jsonl"
    file.write_text("\ufeff" + "\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n", encoding="utf-8")
    return file


def test_a_file_is_a_pack_wherever_ids_are_taken(questions: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(questions.parent)
    ids = registry.expand(f"qa:{questions.name}")
    assert ids == [f"qa:{questions}#{name}" for name in ("capital", "q-00001", "q-00002")]
    assert registry.expand([f"qa:{questions}#q-*"], split="train") == [f"qa:{questions}#q-00001"]
    monkeypatch.chdir("/")
    pack, task = registry.find(ids[1])
    assert (pack.name, task.metadata.world, pack.world(task)) == ("my-questions", "sums-1", None)
    assert "6 x 7?" in task.steps[0].instruction
    with pytest.raises(UserError, match="did you mean 'capital'"):
        registry.expand(f"qa:{questions}#capitol")
    with pytest.raises(UserError, match="no file"):
        registry.expand("qa:none.jsonl")
    with pytest.raises(UserError, match="did you mean 'seed'"):
        registry.expand(f"qa:{questions}?sede=1")
    assert QuestionPack(f"{questions}?seed=1").version != QuestionPack(str(questions)).version


def test_every_row_that_cant_be_asked_is_named(tmp_path: Path) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_text('{"question": "q"}\n{"question": "r", "answer": 1}\n{"answer": 2}\n')
    with pytest.raises(UserError, match="2 of 3 rows") as caught:
        registry.expand(f"qa:{file}")
    assert "row 0" in str(caught.value)
    assert "row 2" in str(caught.value)
    file.write_text("{broken\n")
    with pytest.raises(UserError, match=r"bad\.jsonl:1"):
        registry.expand(f"qa:{file}")


def test_parquet_is_read_as_jsonl_is(tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    file = tmp_path / "set.parquet"
    parquet.write_table(pa.Table.from_pylist([{"question": "q", "choices": ["x", "y"], "answer": 1}]), file)
    assert list(read_rows(file)) == [{"question": "q", "choices": ["x", "y"], "answer": 1}]
    assert len(registry.expand(f"qa:{file}")) == 1
    file.write_bytes(b"PAR1 no parquet")
    with pytest.raises(UserError, match="parquet"):
        list(read_rows(file))
