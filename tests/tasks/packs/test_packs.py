"""`envkit pack`, without trials: inspection, splits by world, contamination, import and export."""

from __future__ import annotations

import base64
import json
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from envkit.cli.main import main
from envkit.directory_pack import DirectoryPack
from envkit.failure import UserError
from envkit.overlap import fingerprint, overlaps
from envkit.overlap.words import text_of, words_of_files
from envkit.task import harbor_problems, load_task_dir
from envkit.tasks.packs.exchange import export_harbor, import_harbor, import_verifiers
from envkit.tasks.packs.inspection import Limits, inspect_tasks, secrets_in
from envkit.tasks.packs.scaffold import new_pack
from envkit.tasks.packs.splitting import split_by_world, write_splits

WORDS = (
    "The quarterly report of the northern branch lists all 12 customers with open invoices and the amounts they owe "
    "us, sorted by the date on which they were due"
)


def write_task(root: Path, name: str, *, instruction: str, world: str | None = None, expected: str = "ready") -> Path:
    folder = root / name
    for sub in ("tests", "solution"):
        (folder / sub).mkdir(parents=True)
    table = f'[metadata.envkit]\nworld = "worlds/{world}"\n' if world else ""
    (folder / "task.toml").write_text(f'schema_version = "1.4"\n# mine\n{table}')
    (folder / "instruction.md").write_text(instruction)
    (folder / "tests" / "verifier.toml").write_text(
        f'schema_version = "1"\n[[check]]\nid = "a"\nkind = "answer"\ncontains = ["{expected}"]\n'
    )
    (folder / "solution" / "solve.sh").write_text(f"echo {expected} > /logs/agent/answer.txt\n")
    if world:
        files = root / "worlds" / world / "filesystem"
        files.mkdir(parents=True, exist_ok=True)
        (files / "notes.txt").write_text(f"The notes of {world}: " + " ".join(f"{world}{n}" for n in range(40)))
    return folder


def test_a_new_pack_is_named_throughout_and_nothing_is_overwritten(tmp_path: Path) -> None:
    folder = new_pack("acme-hr", tmp_path)
    assert (folder / "src" / "acme_hr" / "tasks" / "late-invoices" / "task.toml").is_file()
    assert not [path for path in folder.rglob("*") if path.is_file() and "__NAME__" in path.read_text()]
    assert tomllib.loads((folder / "pyproject.toml").read_text())["project"]["entry-points"]["envkit.tasks"] == {
        "acme-hr": "acme_hr:Pack"
    }
    assert (folder / "src/acme_hr/tasks/stock-value/solution/solve.sh").stat().st_mode & 0o111
    with pytest.raises(UserError, match="exists already"):
        new_pack("acme-hr", tmp_path)
    for bad in ("Acme", "a/b", "../x", "envkit", ""):
        with pytest.raises(UserError):
            new_pack(bad, tmp_path)


def test_inspection_finds_secrets_sizes_and_a_missing_licence(tmp_path: Path) -> None:
    root = tmp_path / "pack"
    folder = write_task(root, "one", instruction=WORDS, world="w")
    (root / "worlds/w/filesystem/.env").write_text("KEY=AKIA" + "ABCDEFGHIJKLMNOP\n")
    (folder / "tests" / "big.bin").write_bytes(bytes(3 << 20))
    write_task(root, "broken", instruction="").joinpath("task.toml").write_text("schema = 1\n")
    ids = [str(root / "one"), str(root / "broken")]
    found = {(f.what, Path(f.task).name) for f in inspect_tasks(ids, Limits(file_mb=2))}
    assert found == {("secret", "one"), ("size", "one"), ("licence", "one"), ("load", "broken")}
    (root / "LICENSE").write_text("mine")
    assert "licence" not in {f.what for f in inspect_tasks(ids)}


def test_a_secret_across_two_reads_is_found(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_bytes(b"x" * ((1 << 20) - 10) + b" ghp_" + b"a" * 36)
    assert list(secrets_in(file)) == ["GitHub token"]


def test_worlds_stay_whole_in_a_split() -> None:
    worlds = {f"t{n}": f"w{n % 7}" for n in range(40)}
    splits = split_by_world(worlds, 0.25, seed=3)
    sides = [{worlds[name] for name in names} for names in splits.values()]
    assert not sides[0] & sides[1]
    assert len(splits["eval"]) in range(8, 13)
    assert splits == split_by_world(worlds, 0.25, seed=3)
    with pytest.raises(UserError, match="share one world"):
        split_by_world({"a": "w", "b": "w"}, 0.5)
    with pytest.raises(UserError, match="between 0 and 1"):
        split_by_world({"a": "v", "b": "w"}, float("nan"))
    many = split_by_world({f"t{n}": f"w{n}" for n in range(20_000)}, 0.01)  # without a search through all sums
    assert len(many["eval"]) == 200


def test_office_files_whose_inside_is_broken_have_no_words(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.docx", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", "<w:t>the price of copper rises in autumn</w:t>" * 500)
    whole = (tmp_path / "a.docx").read_bytes()
    (tmp_path / "b.docx").write_bytes(whole[:60] + b"\xff" * 40 + whole[100:])
    with zipfile.ZipFile(tmp_path / "c.docx", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", "<" * (4 << 20))  # no tag, and no time
    assert "price of copper" in text_of(tmp_path / "a.docx")
    assert not text_of(tmp_path / "b.docx").strip("< ")
    assert "price" not in text_of(tmp_path / "c.docx")


def test_a_split_is_written_and_its_comments_kept(tmp_path: Path) -> None:
    root = tmp_path / "pack"
    write_task(root, "a", instruction=WORDS, world="one")
    write_task(root, "b", instruction=WORDS, world="two")
    text = (root / "a/task.toml").read_text()
    (root / "a/task.toml").write_text(text + 'split = "eval"\n')
    (root / "pack.toml").write_text('name = "p" # mine\n')
    write_splits(DirectoryPack(root), {"train": ["a"], "eval": ["b"]})
    pack = DirectoryPack(root)
    assert (pack.ids("train"), pack.ids("eval")) == (("a",), ("b",))
    assert pack.load("a").metadata.split == "train"
    assert "# mine" in (root / "pack.toml").read_text()
    assert "# mine" in (root / "a/task.toml").read_text()


def test_contamination_is_found_in_every_part_and_not_where_there_is_none(tmp_path: Path) -> None:
    root = tmp_path / "pack"
    long = " ".join(f"step{n} checks" for n in range(60))
    tasks = {
        "origin": write_task(root, "origin", instruction=WORDS, world="one", expected=long),
        "figures": write_task(root, "figures", instruction=WORDS.replace("12", "2,024"), expected="x"),
        "reworded": write_task(root, "reworded", instruction="Please answer. " + WORDS + " Thank you.", expected="y"),
        "same-result": write_task(root, "same-result", instruction="Quite another question", expected=long),
        "same-world": write_task(root, "same-world", instruction="Yet another question entirely", world="one"),
        "clean": write_task(root, "clean", instruction="Nothing of this kind was ever asked", world="two"),
    }
    prints = {name: fingerprint(str(path)) for name, path in tasks.items()}
    others = [found for name, found in prints.items() if name != "origin"]
    kinds = {Path(found.second).name: set(found.kinds) for found in overlaps([prints["origin"]], others)}
    assert kinds["reworded"] == {"near instruction"} or kinds["reworded"] == {"same instruction"}
    assert any("instruction" in kind for kind in kinds["figures"])
    assert kinds["same-result"] == {"same expected result"}
    assert "same files" in kinds["same-world"]
    assert "clean" not in kinds


def test_words_in_pdfs_and_mail_count_whatever_the_files_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENVKIT_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    root, text = tmp_path / "pack", [f"Clause {n}: {WORDS} as of {word}." for n, word in enumerate(WORDS.split())]
    for number, words in enumerate((text, [*text[:-1], "One clause is another one."], WORDS.upper().split()[::-1])):
        write_task(root, f"t{number}", instruction=("abc"[number] * 3 + " ") * 9, world=f"w{number}")
        folder = root / "worlds" / f"w{number}" / "filesystem"
        (folder / "notes.txt").unlink()
        write_pdf(folder / "contract.pdf", words)
        (folder / "ask.eml").write_text(
            f"From: a@b.example\nSubject: mail\nDate: Mon, {number} Nov 2026 10:00:00 +0000\nContent-Type: text/plain; "
            "charset=utf-8\nContent-Transfer-Encoding: base64\n\n" + base64.b64encode(" ".join(words).encode()).decode()
        )
    prints = [fingerprint(str(root / f"t{number}")) for number in range(3)]
    found = list(overlaps(prints[:1], prints[1:]))
    assert [(Path(pair.second).name, pair.kinds) for pair in found] == [("t1", ("near files",))]
    kept = sorted((tmp_path / "home" / "cache" / "words").iterdir())
    assert len(kept) == 6
    np.save(kept[0], np.array([7], np.uint64))
    kept[1].write_bytes(b"torn")
    words_of_files.cache_clear()
    again = [fingerprint(str(root / f"t{number}")) for number in range(3)]
    assert sum(7 in found.files for found in again) == 1, "they are read once on a machine"
    assert len(set().union(*(a.files for a in again))) > 40, "what is kept in pieces is read anew"


def write_pdf(path: Path, lines: Sequence[str]) -> None:
    from reportlab.pdfgen.canvas import Canvas

    canvas = Canvas(str(path))
    for start in range(0, len(lines), 40):
        for at, line in enumerate(lines[start : start + 40]):
            canvas.drawString(20, 800 - 18 * at, line)
        canvas.showPage()
    canvas.save()


def test_a_leak_fails_unless_it_is_allowed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    first = write_task(tmp_path / "a", "one", instruction=WORDS)
    second = write_task(tmp_path / "b", "two", instruction=WORDS)
    other = write_task(tmp_path / "c", "three", instruction="Something else is wanted here, and in other words")
    assert main(["pack", "overlap", str(first), str(second)]) == 1
    assert "same instruction" in capsys.readouterr().out
    assert main(["pack", "overlap", str(first), str(second), "--allow-leaks"]) == 0
    assert main(["pack", "overlap", str(first), str(other)]) == 0
    capsys.readouterr()
    assert main(["pack", "overlap", str(first), str(second), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["overlaps"][0]["instruction"] == 1.0


def test_harbor_directories_go_in_and_out_whole(tmp_path: Path) -> None:
    root = tmp_path / "pack"
    write_task(root, "one", instruction=WORDS, world="w")
    written, problems = export_harbor([str(root / "one")], tmp_path / "out")
    assert problems == []
    exported = load_task_dir(written[0])
    assert harbor_problems(exported) == []
    assert (written[0] / "environment/filesystem/notes.txt").is_file()
    assert (written[0] / "tests/test.sh").stat().st_mode & 0o111
    (tmp_path / "out" / "bad").mkdir()
    (tmp_path / "out" / "bad" / "task.toml").write_text("nonsense = 1\n")
    taken, left = import_harbor(tmp_path / "out", tmp_path / "mine")
    assert taken == ["one"]
    assert left[0].startswith("bad: ")
    pack = DirectoryPack(tmp_path / "mine")
    world = pack.world(pack.load("one"))
    assert world is not None
    assert (world / "filesystem/notes.txt").read_text() == (root / "worlds/w/filesystem/notes.txt").read_text()
    with pytest.raises(UserError, match="exists already"):
        import_harbor(tmp_path / "out", tmp_path / "mine")
    with pytest.raises(UserError, match="holds no task"):
        import_harbor(tmp_path / "pack" / "worlds", tmp_path / "mine")


def test_rows_of_verifiers_become_tasks(tmp_path: Path) -> None:
    rows = [
        {"prompt": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "6 x 7?"}], "answer": "42"},
        {"question": "Which?", "answer": "B", "info": {"choices": ["x", "y"]}},
        {"question": "no answer"},
    ]
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    taken, left = import_verifiers(file, tmp_path / "pack")
    assert taken == ["q-00000", "q-00001"]
    assert left[0].startswith("row 2: ")
    pack = DirectoryPack(tmp_path / "pack")
    assert "Be brief.\n\n6 x 7?" in pack.load("q-00000").steps[0].instruction
    assert "A) " in pack.load("q-00001").steps[0].instruction


def test_a_row_that_cant_be_a_task_costs_no_other(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"question": "q", "answer": 10**400},
        {"question": "q", "answer": "x", "info": '{"a":' * 50_000},
        {"question": "q", "answer": float("nan")},
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    taken, left = import_verifiers(tmp_path / "rows.jsonl", tmp_path / "out")
    assert taken == ["q-00001"]
    assert [path.name for path in (tmp_path / "out").iterdir()] == taken
    assert [told.partition(":")[0] for told in left] == ["row 0", "row 2"]


def test_mistakes_are_told_with_exit_code_2(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for arguments in (["pack"], ["pack", "nwe", "x"], ["pack", "import", "harbor", str(tmp_path / "none"), "x"]):
        assert main(arguments) == 2
    assert main(["pack", "import", "harbor", str(tmp_path), str(tmp_path / "x")]) == 2


def test_a_file_of_questions_is_inspected_and_our_licence_is_not_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)  # beyond what is looked at for a licence
    file = tmp_path / "a" / "b" / "c" / "q.jsonl"
    file.write_text('{"question": "What is 2+2?", "answer": "4"}\n')
    assert main(["pack", "check", f"qa:{file}", "--static"]) == 1
    assert "licence: no LICENSE" in capsys.readouterr().out
    (file.parent / "LICENSE").write_text("mine")
    assert main(["pack", "check", f"qa:{file}", "--static"]) == 0


def test_a_package_given_as_a_folder_is_told_where_its_tasks_and_worlds_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = new_pack("acme", tmp_path)
    tasks = folder / "src" / "acme" / "tasks"
    assert main(["tasks", str(folder)]) == 2
    assert f"there are tasks in {tasks}" in capsys.readouterr().err
    assert main(["tasks", str(tmp_path / "acme" / "tests")]) == 2
    assert "there are tasks in" not in capsys.readouterr().err
    (finding, _) = [finding for finding in inspect_tasks([str(path.parent) for path in tasks.glob("*/task.toml")])]
    assert finding.what == "world"
    assert f"pip install -e {folder}" in finding.text
