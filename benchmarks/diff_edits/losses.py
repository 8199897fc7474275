"""What programs do not keep when they open and save a file: stated as data, so that a re-save can be judged.

A loss is no fault of the diff: the file says something else afterwards, and the diff has to say so. It is stated as
narrowly as it is known (kind, place, texts before and after, and what the file must hold for it to happen), so that any
other finding of a re-save counts as one too many. Every loss was looked up in the XML of both files.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from envkit.verifiers.diff import Finding

__all__ = ["Loss", "explained", "has", "lacks"]


@dataclass(frozen=True)
class Loss:
    """One loss. `kind`, `where`, `before` and `after` are patterns of the whole text (of "" where there is none);
    `when` looks at the bytes of the file that was saved, `test` at the finding."""

    kind: str
    why: str
    before: str = ".*"
    after: str = ".*"
    where: str = ".*"
    change: str = ""
    when: Callable[[bytes], bool] = lambda data: True
    test: Callable[[Finding], bool] = lambda finding: True

    def covers(self, finding: Finding, data: bytes) -> bool:
        texts = ((self.where, finding.where), (self.before, finding.before or ""), (self.after, finding.after or ""))
        return (
            re.fullmatch(self.kind, finding.kind) is not None
            and self.change in ("", str(finding.change))
            and all(re.fullmatch(pattern, text, re.DOTALL) for pattern, text in texts)
            and self.test(finding)
            and self.when(data)
        )


def explained(finding: Finding, data: bytes, losses: tuple[Loss, ...]) -> Loss | None:
    return next((loss for loss in losses if loss.covers(finding, data)), None)


@lru_cache(maxsize=4)
def _parts(data: bytes) -> dict[str, str]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {
            name: archive.read(name).decode("utf-8", "replace")
            for name in archive.namelist()
            if name.endswith((".xml", ".rels", ".vml"))
        }


def has(part: str, pattern: str, times: int = 1) -> Callable[[bytes], bool]:
    """Whether the parts whose names match `part` hold the pattern, so often in one of them."""

    def when(data: bytes) -> bool:
        texts = (text for name, text in _parts(data).items() if re.search(part, name))
        return any(len(re.findall(pattern, text, re.DOTALL)) >= times for text in texts)

    return when


def lacks(part: str, pattern: str) -> Callable[[bytes], bool]:
    found = has(part, pattern)
    return lambda data: not found(data)
