"""Snapshots: what changed between two, and what survives writing and reading again."""

from __future__ import annotations

import os
import stat
import tarfile
import zipfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from snapshot_states import folder, member, state

from envkit.snapshot import (
    Changes,
    Kind,
    Rename,
    Snapshot,
    changes,
    write_tar_gz,
    write_zip,
)


def test_a_change_of_the_same_size_is_found() -> None:
    found = changes(state({"filesystem/a.docx": b"12.4"}), state({"filesystem/a.docx": b"12.5"}))
    assert found == Changes(modified=("filesystem/a.docx",))


def test_created_deleted_modified_and_renamed() -> None:
    before = {"filesystem/keep": b"k", "filesystem/old.txt": b"moved", "filesystem/gone": b"g", "filesystem/m": b"1"}
    after = {
        "filesystem/keep": b"k",
        "filesystem/new/old.txt": b"moved",
        "filesystem/fresh": b"f",
        "filesystem/m": b"2",
    }
    found = changes(state(before), state(after))
    assert found.created == ("filesystem/fresh",)
    assert found.deleted == ("filesystem/gone",)
    assert found.modified == ("filesystem/m",)
    assert found.renamed == (Rename("filesystem/old.txt", "filesystem/new/old.txt"),)
    assert found.created_folders == ("filesystem/new",)
    assert found.outputs == ("filesystem/fresh", "filesystem/m", "filesystem/new/old.txt")


def test_renames_are_paired_by_name_then_folder_then_order() -> None:
    before = {"filesystem/a/x": b"same", "filesystem/b/y": b"same", "filesystem/c/z": b"same"}
    after = {"filesystem/q/z": b"same", "filesystem/b/w": b"same", "filesystem/p/v": b"same", "filesystem/r/u": b"same"}
    found = changes(state(before), state(after))
    assert found.renamed == (
        Rename("filesystem/a/x", "filesystem/p/v"),
        Rename("filesystem/b/y", "filesystem/b/w"),
        Rename("filesystem/c/z", "filesystem/q/z"),
    )
    assert found.created == ("filesystem/r/u",)


def test_empty_files_and_folders() -> None:
    before = [member("filesystem/empty1"), member("filesystem/d", kind=tarfile.DIRTYPE)]
    after = [member("filesystem/empty2"), member("filesystem/e", kind=tarfile.DIRTYPE)]
    found = changes(state(before), state(after))
    assert (found.created, found.deleted, found.renamed) == (("filesystem/empty2",), ("filesystem/empty1",), ())
    assert (found.created_folders, found.deleted_folders) == (("filesystem/e",), ("filesystem/d",))
    assert not changes(state(before[1:]), state(after[1:]))


def test_a_file_that_became_a_link_is_modified_and_modes_are_not() -> None:
    before = [member("filesystem/a", b"x"), member("filesystem/b", b"x", mode=0o644)]
    after = [member("filesystem/a", kind=tarfile.SYMTYPE, link="b"), member("filesystem/b", b"x", mode=0o755)]
    assert changes(state(before), state(after)).modified == ("filesystem/a",)


def test_without_an_initial_state_everything_is_created() -> None:
    assert changes(None, state({"filesystem/a": b"x"})) == Changes(
        created=("filesystem/a",), created_folders=("filesystem",)
    )


PATHS = st.sampled_from([f"filesystem/{d}{n}" for d in ("", "d/", "e/") for n in ("a", "b", "c.txt")])
STATES = st.dictionaries(PATHS, st.sampled_from([b"", b"1", b"2", b"22"]), max_size=7)


@given(STATES, STATES)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_changes_explain_the_difference_whole_and_mirror(before: dict[str, bytes], after: dict[str, bytes]) -> None:
    first, last = state(before), state(after)
    there, back = changes(first, last), changes(last, first)
    rebuilt = {p: d for p, d in before.items() if p not in there.deleted}
    for rename in there.renamed:
        rebuilt[rename.new] = rebuilt.pop(rename.old)
    assert all(after[p] != before[p] for p in there.modified)
    rebuilt |= {p: after[p] for p in (*there.created, *there.modified)}
    assert rebuilt == after
    assert (back.created, back.deleted, back.modified) == (there.deleted, there.created, there.modified)
    assert sorted((r.new, r.old) for r in back.renamed) == sorted((r.old, r.new) for r in there.renamed)
    assert bool(there) == (before != after)


# Writing


def test_both_layouts_survive_and_are_the_same_bytes_each_time(tmp_path: Path) -> None:
    world = folder(tmp_path / "world", {"filesystem/ä/run.sh": b"#!", "filesystem/b.bin": os.urandom(3 << 20)})
    (world / "filesystem/ä/run.sh").chmod(0o755)
    (world / "filesystem/link").symlink_to("b.bin")
    (world / "filesystem/hollow").mkdir()
    first = Snapshot.from_folders(world)
    for name, write in (("w.zip", write_zip), ("w.tar.gz", write_tar_gz)):
        write(first, tmp_path / name)
        once = (tmp_path / name).read_bytes()
        write(first, tmp_path / name)
        assert (tmp_path / name).read_bytes() == once
        with Snapshot.from_archive(tmp_path / name) as again:
            expected = ["filesystem/b.bin", *(["filesystem/link"] if name == "w.tar.gz" else []), "filesystem/ä/run.sh"]
            assert list(again.paths()) == expected
            assert again.digest("filesystem/b.bin") == first.digest("filesystem/b.bin")
            assert again.entries["filesystem/ä/run.sh"].executable
            assert not changes(first, again).created
    with zipfile.ZipFile(tmp_path / "w.zip") as archive:
        assert sorted(archive.namelist()) == ["filesystem/b.bin", "filesystem/ä/run.sh"]
        assert stat.S_IMODE(archive.getinfo("filesystem/ä/run.sh").external_attr >> 16) == 0o755


def test_zip_links_of_other_programs_are_links(tmp_path: Path) -> None:
    info = zipfile.ZipInfo("filesystem/link")
    info.create_system, info.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "w.zip", "w") as archive:
        archive.writestr("filesystem/a", b"content")
        archive.writestr(info, "a")
    with Snapshot.from_archive(tmp_path / "w.zip") as found:
        assert found.entries["filesystem/link"].kind is Kind.LINK
        assert found.read("filesystem/link") == b"content"
