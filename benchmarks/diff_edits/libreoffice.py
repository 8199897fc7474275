"""Opening and saving by LibreOffice, many files at a time.

Each file is saved beside where it was opened, as a person would save it: links to other files stay what they are.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from diff_edits.zipped import part_names, read_part

__all__ = ["installed", "resaved"]

_FILTERS = {
    "xlsx": "xlsx:Calc MS Excel 2007 XML",
    "xlsm": "xlsm:Calc MS Excel 2007 VBA XML",
    "docx": "docx:MS Word 2007 XML",
    "pptx": "pptx:Impress MS PowerPoint 2007 XML",
}
_BATCH = 12
#: LibreOffice's part for formulas; without it, it drops equations.
_FORMULAS = Path("/usr/lib/libreoffice/program/libsmlo.so")


def installed() -> bool:
    return shutil.which("soffice") is not None


def resaved(files: Sequence[bytes], suffix: str) -> list[bytes | None]:
    """The files as LibreOffice saves them; None for one that it can't open, and for one with equations where its part
    for formulas is not installed."""
    with tempfile.TemporaryDirectory() as folder:
        sources = [Path(folder, f"file{number}.original") for number in range(len(files))]
        targets = [source.with_suffix(f".{suffix}") for source in sources]
        todo = []
        for source, data in zip(sources, files, strict=True):
            if not _beyond_it(data):
                source.write_bytes(data)
                todo.append(source)
        for start in range(0, len(todo), _BATCH):
            _save(todo[start : start + _BATCH], suffix, folder)
        # A file that brings the program down takes those after it along.
        for source in todo:
            if not source.with_suffix(f".{suffix}").exists():
                _save([source], suffix, folder)
        return [target.read_bytes() if target.exists() else None for target in targets]


def _save(sources: Sequence[Path], suffix: str, folder: str) -> None:
    command = ["soffice", f"-env:UserInstallation=file://{folder}/profile", "--headless"]
    command += ["--convert-to", _FILTERS[suffix], "--outdir", folder, *map(str, sources)]
    try:
        subprocess.run(command, capture_output=True, timeout=60 + 20 * len(sources), check=False)
    except subprocess.TimeoutExpired:
        return


def _beyond_it(data: bytes) -> bool:
    if _FORMULAS.exists():
        return False
    names = [n for n in part_names(data) if n.endswith(".xml")]
    return any(b"<m:oMath" in read_part(data, name) for name in names)
