"""Artifacts: initial world plus artifacts is the final state again, and hold only what changed."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from envkit.trial.artifacts import rebuild, write_artifacts


@pytest.fixture
def initial(tmp_path: Path) -> Path:
    root = tmp_path / "initial"
    (root / "filesystem" / "sub").mkdir(parents=True)
    (root / ".apps_data" / "mail").mkdir(parents=True)
    (root / "filesystem" / "same.txt").write_text("same" * 1000)
    (root / "filesystem" / "edited.txt").write_text("before")
    (root / "filesystem" / "gone.txt").write_text("gone")
    (root / "filesystem" / "sub" / "deep.bin").write_bytes(bytes(range(256)))
    (root / ".apps_data" / "mail" / "box").write_text("mail")
    return root


def tar_of(entries: dict[str, bytes | str | None]) -> bytes:
    """Bytes are files, text is a link's target, None a folder."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in entries.items():
            info = tarfile.TarInfo(name)
            info.mode = 0o644
            if content is None:
                info.type, info.mode = tarfile.DIRTYPE, 0o755
                tar.addfile(info)
            elif isinstance(content, str):
                info.type, info.linkname = tarfile.SYMTYPE, content
                tar.addfile(info)
            else:
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


FINAL: dict[str, bytes | str | None] = {
    "filesystem": None,
    "filesystem/same.txt": b"same" * 1000,
    "filesystem/edited.txt": b"after!",
    "filesystem/new": None,
    "filesystem/new/report.csv": b"a,b\n",
    "filesystem/link": "/etc/passwd",
    "filesystem/sub": None,
    "filesystem/sub/deep.bin": bytes(range(256)),
    ".apps_data": None,
    ".apps_data/mail": None,
    ".apps_data/mail/box": b"mail",
}


def test_only_what_changed_is_kept_and_the_final_state_comes_back(tmp_path: Path, initial: Path) -> None:
    final = tmp_path / "final.tar"
    final.write_bytes(tar_of(FINAL))
    manifest = write_artifacts(final, initial, tmp_path / "artifacts")
    changed = {entry["path"]: entry["new"] for entry in manifest["changed"]}
    assert changed == {
        "filesystem/edited.txt": False,
        "filesystem/new": True,
        "filesystem/new/report.csv": True,
        "filesystem/link": True,
    }
    assert manifest["deleted"] == ["filesystem/gone.txt"]
    rebuild(initial, tmp_path / "artifacts", tmp_path / "again.tar")
    again: dict[str, bytes | str | None] = {}
    with tarfile.open(tmp_path / "again.tar") as tar:
        for member in tar:
            stream = tar.extractfile(member) if member.isreg() else None
            again[member.name] = stream.read() if stream else member.linkname if member.issym() else None
    assert again == FINAL


def test_a_link_in_the_place_of_a_file_is_a_change_and_is_not_followed(tmp_path: Path, initial: Path) -> None:
    final = tmp_path / "final.tar"
    final.write_bytes(tar_of({**FINAL, "filesystem/same.txt": "sub/deep.bin"}))
    manifest = write_artifacts(final, initial, tmp_path / "artifacts")
    assert {"path": "filesystem/same.txt", "type": "link", "size": 0, "new": False} in manifest["changed"]


def test_equal_states_give_equal_bytes(tmp_path: Path, initial: Path) -> None:
    final = tmp_path / "final.tar"
    final.write_bytes(tar_of(FINAL))
    for name in ("one", "two"):
        write_artifacts(final, initial, tmp_path / name)
    one, two = ((tmp_path / name / "changed.tar.gz").read_bytes() for name in ("one", "two"))
    assert one == two


def test_without_an_initial_world_everything_is_new(tmp_path: Path) -> None:
    final = tmp_path / "final.tar"
    final.write_bytes(tar_of({"filesystem/a": b"1"}))
    assert write_artifacts(final, None, tmp_path / "a")["changed"][0]["new"] is True
