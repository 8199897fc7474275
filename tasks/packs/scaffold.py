"""`envkit pack new`: an installable package with a pack in it, sound from the first minute.

What is written is a small whole: two worlds built by code, a task in each (one to train on, one to evaluate with),
typed checks and a check of one's own, solutions, tests that run the self-test. Files are the templates of
`templates/`, with the pack's name put in.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from envkit.failure import UserError
from envkit.task.names import SLUG_RULE, is_slug

__all__ = ["new_pack"]

#: A template's ending, so that no tool takes templates for code or tests.
_ENDING = ".txt"


def new_pack(name: str, parent: Path) -> Path:
    """Writes the package of a new pack into the new folder `parent/name` and returns it.

    Raises:
        UserError: The name can't be a pack's, or the folder exists.
    """
    if not is_slug(name) or not re.fullmatch(r"[a-z][a-z0-9-]*", name):
        raise UserError(
            f"{name!r} can't name a new pack; expected small letters, digits and '-', beginning with a letter "
            f"(ids in general: {SLUG_RULE})"
        )
    module = name.replace("-", "_")
    if module in ("envkit", "tests", "tasks"):
        raise UserError(f"{name!r} would hide another package; choose another name")
    target = parent / name
    if target.exists():
        raise UserError(f"{target} exists already; choose another name or another folder (--dir)")
    parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=parent))
    try:
        _copy(files("envkit.tasks.packs") / "templates", draft, {"NAME": name, "MODULE": module})
        draft.chmod(0o755)
        draft.rename(target)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return target


def _copy(source: Traversable, target: Path, words: dict[str, str]) -> None:
    for entry in sorted(source.iterdir(), key=lambda item: item.name):
        name = _filled(entry.name, words)
        if entry.is_dir():
            (target / name).mkdir()
            _copy(entry, target / name, words)
        elif entry.name.endswith(_ENDING):
            place = target / name.removesuffix(_ENDING)
            place.write_text(_filled(entry.read_text(encoding="utf-8"), words), encoding="utf-8")
            if place.suffix == ".sh":
                place.chmod(0o755)


def _filled(text: str, words: dict[str, str]) -> str:
    for word, value in words.items():
        text = text.replace(f"__{word}__", value)
    return text
