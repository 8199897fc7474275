"""The token view: every token once, with what became of it."""

from __future__ import annotations

import json
import random
from pathlib import Path

import make_run
import numpy as np
import pytest

from envkit.tokens.scored import SCORED, read_scored, write_scored
from envkit.tokens.store import read_trace
from envkit.tokens.trace import TraceError
from envkit.view.tokens import CONTEXT, MASKED, TRAINS, TokenView
from envkit.view.vocabulary import find_tokenizer, load_vocabulary


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("traces")
    make_run.write_trace(
        root / "trace", make_run.conversation(random.Random(1), 8), root / "tokenizer", random.Random(2)
    )
    return root / "trace"


def test_every_token_is_there_once_with_its_kind_and_text(folder: Path) -> None:
    trace, view = read_trace(folder), TokenView(folder)
    about = view.about()
    ids, kinds, texts = [], [], []
    for start in range(0, view.total, 500):
        piece = view.stretch(start, 500)
        ids += piece["ids"]
        kinds += piece["kinds"]
        texts += piece["texts"]
    assert ids == np.concatenate([node.ids for node in trace]).tolist()
    assert kinds.count(CONTEXT) == view.total - trace.sampled_tokens
    assert kinds.count(TRAINS) == about["trains"]
    aborted = next(node for node in trace if node.sampling is not None and node.sampling.finish == "abort")
    assert kinds.count(MASKED) == len(aborted.ids) == about["dropped"]["abort"]
    start = about["nodes"][aborted.index]["start"]
    assert set(kinds[start : start + len(aborted.ids)]) == {MASKED}
    assert "".join(texts).startswith("<|im_start|>system\nYou do office work")


def test_figures_stand_at_sampled_tokens_alone(folder: Path) -> None:
    view = TokenView(folder)
    piece = view.stretch(0, 8_000)
    for kind, logprob, version, gap in zip(
        piece["kinds"], piece["logprobs"], piece["versions"], piece["gaps"], strict=True
    ):
        assert (logprob is None) == (kind == CONTEXT)
        assert (version == -1) == (kind == CONTEXT)
        assert gap is None or kind != CONTEXT
    assert view.about()["gap"]["mean"] < 0.02
    worst = view.extremes("logprob", 5)
    lowest = sorted(value for value in piece["logprobs"] if value is not None)[:5]
    assert [piece["logprobs"][at] for at in worst] == lowest
    gaps = [abs(piece["gaps"][at]) for at in view.extremes("gap", 5)]
    assert gaps == sorted(gaps, reverse=True)
    assert view.stretch(view.total + 5, 10)["ids"] == []


def test_a_scored_file_of_another_trace_is_told_and_not_used(folder: Path, tmp_path: Path) -> None:
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    trace = read_trace(tmp_path)
    write_scored(tmp_path, np.zeros(3, np.float32), {"model": "m"})
    with pytest.raises(TraceError, match="belongs to another trace"):
        read_scored(tmp_path, trace)
    view = TokenView(tmp_path)
    assert view.about()["gap"] is None
    assert any("another trace" in note for note in view.notes)
    (tmp_path / SCORED).write_bytes(b"garbage")
    with pytest.raises(TraceError, match="is damaged"):
        read_scored(tmp_path, trace)


def test_without_the_tokenizer_tokens_are_their_ids(folder: Path, tmp_path: Path) -> None:
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    about = json.loads((tmp_path / "trace.json").read_text())
    about["meta"]["tokenizer"] = "nobody/has-this"
    (tmp_path / "trace.json").write_text(json.dumps(about))
    view = TokenView(tmp_path)
    assert view.stretch(0, 4)["texts"] is None
    assert any("is not on this machine" in note for note in view.notes)


def test_vocabularies_of_both_kinds_are_read(tmp_path: Path) -> None:
    words = make_run.write_tokenizer(tmp_path / "bytes")
    found = load_vocabulary(str(tmp_path / "bytes"))
    assert found is not None
    assert found.text(words[" margin"]) == " margin"
    assert found.text(ord("\n")) == "\n"
    assert found.text(0xC3) == "\\xc3", "a part of a character is shown as its byte"
    assert found.text(10**6) is None
    pieces = {"model": {"vocab": [["<unk>", 0], ["\u2581net", -1.0], ["<0x0A>", -2.0]]}, "decoder": None}
    (tmp_path / "pieces").mkdir()
    (tmp_path / "pieces" / "tokenizer.json").write_text(json.dumps(pieces))
    other = load_vocabulary(str(tmp_path / "pieces"))
    assert other is not None
    assert [other.text(n) for n in range(3)] == ["<unk>", " net", "\n"]


@pytest.mark.parametrize("source", ["", "\0", "../../etc", "/etc/passwd", "a/b/c"])
def test_names_that_are_no_tokenizer_lead_nowhere(source: str) -> None:
    assert find_tokenizer(source) is None
    assert load_vocabulary(source) is None
