"""The store of built worlds: folders by key below `$ENVKIT_HOME/worlds`, each built once, whole, and never changed.

Packs ask for a folder by a key that stands for its content; whoever asks first builds it under a file lock, in a draft
that is renamed into place, so that a folder that exists is complete, however many processes ask and whichever of them
is killed. Folders are made read-only; of the modes only the executable bits mean anything (who copies a world into a
sandbox decides there who may write). The whole store may be deleted while nothing runs.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from envkit.failure import EnvkitError, FailureKind, UserError
from envkit.home import envkit_home
from envkit.task.tree import check_tree, digest_tree, walk

__all__ = ["WORLD_PARTS", "build_world", "merged_world", "worlds_dir"]

#: The two trees of a world.
WORLD_PARTS = ("filesystem", ".apps_data")

#: How long to wait, in seconds, for another process that builds the same folder.
LOCK_TIMEOUT_S = 900.0

_POLL_S = 0.02
_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")

#: Two states of a file this close in time may look alike; digests are only remembered of older trees.
_SETTLED_NS = 2_000_000_000


def worlds_dir() -> Path:
    """The folder of the store, created."""
    folder = envkit_home() / "worlds"
    folder.mkdir(exist_ok=True, mode=0o755)
    return folder


def build_world(key: str, builder: Callable[[Path], object]) -> Path:
    """The folder stored under `key`; built by `builder(empty_folder)` if it is not there yet.

    Safe to call from many threads and processes at once; blocks while another one builds the same key. Everything in
    the folder, and the folder, is read-only afterwards.

    Args:
        key: Stands for the content: change it whenever the content may change. Letters, digits, `.`, `_`, `-`.
        builder: Fills the folder it is given. What it raises is passed on, and nothing is stored.

    Raises:
        EnvkitError: Another process held the lock for longer than 15 minutes.
    """
    if not _KEY.fullmatch(key):
        raise ValueError(f"a world's key has letters, digits, '.', '_' and '-' (at most 200), found {key!r}")
    store = worlds_dir()
    target = store / key
    if not target.is_dir():
        with _locked(store, key):
            if not target.is_dir():
                _build(store, target, builder)
    with contextlib.suppress(OSError):  # for `envkit gc`: when it was last wanted; another user's store is fine too
        os.utime(target)
    return target


def merged_world(sources: Sequence[Path], *, label: str = "world") -> Path | None:
    """World trees laid over each other, the later over the earlier, as one stored folder with `filesystem/` and
    `.apps_data/`.

    The key is a digest of the contents, so that tasks that share their sources share the folder. Links may only lead
    inside their own tree, and are stored as what they lead to.

    Args:
        sources: Folders with `filesystem/` or `.apps_data/` or both; what else is in them does not count.
        label: Begins the folder's name, for people who look into the store.

    Raises:
        UserError: A tree is hostile, or a source holds neither part.
    """
    if not sources:
        return None
    digests = "\n".join(_digest(source) for source in sources)
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", label).strip("-._")[:60] or "world"
    key = f"{name}-{hashlib.sha256(digests.encode()).hexdigest()[:32]}"

    def merge(target: Path) -> None:
        for part in WORLD_PARTS:
            (target / part).mkdir()
            for source in sources:
                if (source / part).is_dir():
                    _copy_over(source / part, target / part)

    return build_world(key, merge)


def _build(store: Path, target: Path, builder: Callable[[Path], object]) -> None:
    for leftover in store.glob(f".draft.{target.name}.*"):  # of a builder that was killed; we hold its lock
        _remove(leftover)
    draft = Path(tempfile.mkdtemp(prefix=f".draft.{target.name}.", dir=store))
    try:
        builder(draft)
        for entry in walk(draft, skip=frozenset()):
            if not entry.is_link:
                executable = stat.S_IMODE(entry.stat.st_mode) & 0o111
                os.chmod(entry.path, 0o555 if entry.is_dir or executable else 0o444)
        os.rename(draft, target)
        os.chmod(target, 0o555)  # last: only a writable folder can be renamed
    except BaseException:
        _remove(draft)
        raise


@contextlib.contextmanager
def _locked(store: Path, key: str) -> Iterator[None]:
    """Holds the key's lock file. A dead process's lock is free: the kernel keeps it, not the file."""
    locks = store / ".locks"
    locks.mkdir(exist_ok=True, mode=0o755)
    descriptor = os.open(locks / key, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        end = time.monotonic() + LOCK_TIMEOUT_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise EnvkitError(
                        f"another process has been building {store / key} for {LOCK_TIMEOUT_S:.0f} s; see who holds "
                        f"{locks / key} (lsof), and end it",
                        kind=FailureKind.SETUP_FAILED,
                    ) from None
                time.sleep(_POLL_S)
        yield
    finally:
        os.close(descriptor)


def _remove(folder: Path) -> None:
    """Removes a draft, read-only folders in it included."""
    for parent, _, _ in os.walk(folder):
        with contextlib.suppress(OSError):
            os.chmod(parent, 0o755)
    shutil.rmtree(folder, ignore_errors=True)


def _digest(source: Path) -> str:
    parts = [(part, source / part) for part in WORLD_PARTS if (source / part).is_dir()]
    if not parts:
        raise UserError(f"{source} holds neither filesystem/ nor .apps_data/; expected a world there")
    return " ".join(f"{part} {_tree_digest(folder)}" for part, folder in parts)


def _tree_digest(tree: Path) -> str:
    """The content digest of a tree, remembered by its files' sizes, identities and change times (a change time can't be
    set back by whoever edits a file)."""
    check_tree(tree)
    facts = hashlib.sha256()
    newest = 0
    for entry in walk(tree):
        found = entry.stat
        facts.update(
            repr((entry.name, found.st_mode, found.st_size, found.st_dev, found.st_ino, found.st_ctime_ns)).encode()
        )
        newest = max(newest, found.st_ctime_ns)
    memo = worlds_dir() / ".digests" / facts.hexdigest()
    with contextlib.suppress(OSError):
        return memo.read_text(encoding="ascii")
    digest = digest_tree(tree)
    if time.time_ns() - newest > _SETTLED_NS:
        with contextlib.suppress(OSError):  # only a memory: without room for it, it is computed again
            memo.parent.mkdir(exist_ok=True)
            draft = memo.with_name(f".{memo.name}.{os.getpid()}.{time.monotonic_ns()}")
            draft.write_text(digest, encoding="ascii")
            os.replace(draft, memo)
    return digest


def _copy_over(source: Path, target: Path) -> None:
    """Copies a tree over another; a file replaces a folder of its name and the other way round."""
    for entry in walk(source):
        place = target / entry.name
        is_dir = os.path.isdir(entry.path)
        if place.exists() and place.is_dir() != is_dir:
            shutil.rmtree(place) if place.is_dir() else place.unlink()
        if entry.is_link and is_dir:
            shutil.copytree(entry.path, place, dirs_exist_ok=True)
        elif is_dir:
            place.mkdir(exist_ok=True)
        else:
            shutil.copy(entry.path, place)
