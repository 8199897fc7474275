"""How fast files are read and compared, against a plain load by the usual library.

    python benchmarks/diff_speed.py [--type xlsx] [--cells 600000] [--corpus ../shared/corpus] [--json]

Per type: megabytes per second of processor time for our reader over the corpus's readable files (and, for xlsx, one
generated workbook of many cells), the same for openpyxl, python-docx, python-pptx or pdfplumber in the same run, the
ratio of the two, and the time of a diff of each file with itself read twice.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from envkit.office.problem import Unreadable
from envkit.verifiers.diff.types import type_of

CORPUS = Path(os.environ.get("ENVKIT_CORPUS", Path(__file__).parents[2] / "shared" / "corpus"))
#: Files of one type that are read; the smallest ones first would flatter fixed costs, so it is every n-th.
MAX_FILES = 40


def _openpyxl(data: bytes) -> object:
    import openpyxl

    return openpyxl.load_workbook(io.BytesIO(data))


def _docx(data: bytes) -> object:
    import docx

    return [p.text for p in docx.Document(io.BytesIO(data)).paragraphs]


def _pptx(data: bytes) -> object:
    import pptx

    slides = pptx.Presentation(io.BytesIO(data)).slides
    return [s.text_frame.text for slide in slides for s in slide.shapes if s.has_text_frame]


def _pdf(data: bytes) -> object:
    import pdfplumber

    with pdfplumber.open(io.BytesIO(data)) as pdf:
        return [page.extract_text() for page in pdf.pages]


def _csv(data: bytes) -> object:
    import csv

    return list(csv.reader(io.StringIO(data.decode("utf-8", "replace"))))


PLAIN: dict[str, Callable[[bytes], object]] = {
    "xlsx": _openpyxl, "xlsm": _openpyxl, "docx": _docx, "pptx": _pptx, "pdf": _pdf, "csv": _csv,
}  # fmt: skip


def many_cells(count: int) -> bytes:
    """A workbook of so many cells: texts, numbers, dates, percentages and formulas."""
    import xlsxwriter

    out = io.BytesIO()
    book = xlsxwriter.Workbook(out, {"in_memory": True})
    sheet, percent = book.add_worksheet("Data"), book.add_format({"num_format": "0.0%"})
    date = book.add_format({"num_format": "yyyy-mm-dd"})
    for row in range(count // 12):
        sheet.write_row(row, 0, [f"name {row % 5000}", f"place {row * 7 % 900}", "open"])
        sheet.write_number(row, 3, 45000 + row % 900, date)
        sheet.write_number(row, 4, row % 97 / 97, percent)
        sheet.write_row(row, 5, [row * k / 8 for k in range(1, 7)])
        sheet.write_formula(row, 11, f"=F{row + 1}*G{row + 1}", None, 0)
    book.close()
    return out.getvalue()


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """The result and the processor seconds."""
    started = time.process_time()
    result = work()
    return result, time.process_time() - started


def measure(suffix: str, files: dict[str, bytes]) -> dict[str, float]:
    """Sums over the files that both sides can read."""
    kind = type_of(f"x.{suffix}")
    assert kind is not None
    read, diff, plain = kind.read, kind.diff, PLAIN[suffix]
    out = {"files": 0.0, "megabytes": 0.0, "read_s": 0.0, "plain_s": 0.0, "diff_s": 0.0}
    for data in files.values():
        try:
            model, ours = timed(lambda data=data: read(data))
            _, theirs = timed(lambda data=data: plain(data))
        except Unreadable:
            continue
        except Exception as error:
            if isinstance(error, MemoryError):
                raise
            continue  # the other library can't read it
        twin = read(data)
        _, compared = timed(lambda model=model, twin=twin: diff(model, twin))
        for key, value in (("files", 1), ("megabytes", len(data) / 1e6), ("read_s", ours), ("plain_s", theirs),
                           ("diff_s", compared)):  # fmt: skip
            out[key] += value
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--type", choices=sorted(PLAIN))
    parser.add_argument("--cells", type=int, default=600_000, help="of the generated workbook")
    parser.add_argument("--corpus", type=Path, default=CORPUS)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if not args.corpus.is_dir():
        print(f"no corpus in {args.corpus}; set ENVKIT_CORPUS or --corpus", file=sys.stderr)
        return 2
    results: dict[str, dict[str, float]] = {}
    for suffix in [args.type] if args.type else PLAIN:
        paths = sorted((args.corpus / suffix).glob(f"*.{suffix}"))
        chosen = paths[:: max(1, len(paths) // MAX_FILES)]
        results[f"{suffix}, corpus"] = measure(suffix, {p.name: p.read_bytes() for p in chosen})
        if suffix == "xlsx":
            results[f"xlsx, {args.cells} cells"] = measure(suffix, {"generated": many_cells(args.cells)})
    if args.json:
        print(json.dumps(results, indent=1))
        return 0
    print(f"{'':<24}{'files':>6}{'MB':>8}{'read s':>9}{'MB/s':>8}{'plain s':>9}{'plain/read':>12}{'diff s':>9}")
    for name, r in results.items():
        speed, ratio = r["megabytes"] / max(r["read_s"], 1e-9), r["plain_s"] / max(r["read_s"], 1e-9)
        print(
            f"{name:<24}{r['files']:>6.0f}{r['megabytes']:>8.2f}{r['read_s']:>9.2f}{speed:>8.2f}{r['plain_s']:>9.2f}"
            f"{ratio:>11.1f}x{r['diff_s']:>9.2f}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
