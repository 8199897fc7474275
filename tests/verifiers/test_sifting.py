"""What of a final state is not for scripts: links to the judge's files however they go, pipes, and nothing else."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

from envkit.verifiers.sifting import sifted


def write(path: Path, root: str, links: dict[str, str], pipes: tuple[str, ...] = ()) -> Path:
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT, errors="surrogateescape") as tar:
        for name, kind in ((root, tarfile.DIRTYPE), *((f"{root}/{pipe}", tarfile.FIFOTYPE) for pipe in pipes)):
            info = tarfile.TarInfo(name)
            info.type = kind
            tar.addfile(info)
        for name, target in links.items():
            info = tarfile.TarInfo(f"{root}/{name}")
            info.type, info.linkname = tarfile.SYMTYPE, target
            tar.addfile(info)
        info = tarfile.TarInfo(f"{root}/file\udcff\n" + "long" * 60)
        info.size = 4
        tar.addfile(info, io.BytesIO(b"kept"))
    return path


def names(path: Path) -> set[str]:
    with tarfile.open(path, errors="surrogateescape") as tar:
        return {member.name.partition("/")[2] for member in tar if not member.isdir()}


async def test_links_to_the_judges_files_are_left_out_however_they_go_there(tmp_path: Path) -> None:
    astray = {
        "a": "/tests/expected.txt", "b": "../tests", "c": "/logs/verifier/reward.json", "d": "//./solution/x",
        "e": "d2/tests/x", "f": "/proc/self/cwd/x", "g": "/filesystem/away/tests/x",
        "h": "/usr/bin/link/../../../tests",
        "i": "a", "j": "/dev/zero",
    }  # fmt: skip
    kept = {
        "d2": "/", "k": "tests/x", "l": "/app/tests/x", "m": "/filesystem/tests", "n": "/usr/share/tests/x",
        "o": "/dev/null", "p": "p", "q": "/nowhere", "r": "../app/x", "s\udcff": "/etc/passwd",
    }  # fmt: skip
    work = write(tmp_path / "work.tar", "app", astray | kept, ("pipe",))
    final = write(tmp_path / "final.tar", "filesystem", {"away": "../", "fine": "away/app"})
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    one, other = await sifted([final, work], scratch)
    assert one == final, "it has nothing of the kind, and is not written anew"
    assert names(other) == kept.keys() | {name for name in names(work) if name.startswith("file")}
    with tarfile.open(other, errors="surrogateescape") as tar:
        (file,) = (member for member in tar if member.isreg())
        assert tar.extractfile(file).read() == b"kept"  # type: ignore[union-attr]


async def test_a_broken_archive_is_left_for_who_unpacks_it(tmp_path: Path) -> None:
    broken = tmp_path / "final.tar"
    broken.write_bytes(b"no tar" * 200)
    assert await sifted([broken], tmp_path) == [broken]
