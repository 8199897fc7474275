"""The office Python inside: importable with no variable set, and nothing of the host's packages beside it."""

from __future__ import annotations

import pytest

from envkit.sandbox import runtime
from envkit.sandbox.base import SandboxSpec
from envkit.sandbox.local import LocalProvider


@pytest.fixture(scope="module")
def office() -> LocalProvider:
    if runtime.find_runtime() is None:
        pytest.skip("the office runtime is not built; `python -m envkit.sandbox.runtime` builds it")
    return LocalProvider()


async def test_office_packages_import_and_work(office):
    script = """
import sys, openpyxl, docx, pptx, pdfplumber, pypdf, lxml.etree, PIL, reportlab.pdfgen.canvas
assert not [name for name in sys.modules if name.startswith("envkit")]
book = openpyxl.Workbook(); book.active["A1"] = "=1+1"; book.save("a.xlsx")
document = docx.Document(); document.add_paragraph("hello"); document.save("a.docx")
deck = pptx.Presentation(); deck.save("a.pptx")
canvas = reportlab.pdfgen.canvas.Canvas("a.pdf"); canvas.drawString(100, 100, "hello"); canvas.save()
print(openpyxl.load_workbook("a.xlsx").active["A1"].value, docx.Document("a.docx").paragraphs[0].text)
print(pdfplumber.open("a.pdf").pages[0].extract_text(), len(pypdf.PdfReader("a.pdf").pages))
"""
    async with office.create(SandboxSpec()) as sandbox:
        result = await sandbox.exec(["python3", "-c", script])
        assert result.stdout == b"=1+1 hello\nhello 1\n", result.stderr
        assert not (await sandbox.exec(["python3", "-c", "import envkit"])).ok
        assert not (await sandbox.exec(["python3", "-c", "import pytest"])).ok


@pytest.mark.slow
async def test_plots_and_tables_work(office):
    script = """
import numpy, pandas, matplotlib; matplotlib.use("Agg")
import matplotlib.pyplot as plt
frame = pandas.DataFrame({"a": numpy.arange(3)}); frame.to_excel("t.xlsx"); frame.plot(); plt.savefig("p.png")
print(int(pandas.read_excel("t.xlsx")["a"].sum()))
"""
    async with office.create(SandboxSpec()) as sandbox:
        result = await sandbox.exec(["python3", "-c", script])
        assert result.stdout == b"3\n", result.stderr


def test_pins_are_whole():
    assert all(len(pin.split("==")) == 2 for pin in runtime.REQUIREMENTS)
    assert list(runtime.REQUIREMENTS) == sorted(runtime.REQUIREMENTS, key=str.lower)


def test_an_interpreter_that_others_can_not_read_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("ENVKIT_PYTHON", str(tmp_path / "python3"))
    (tmp_path / "python3").write_text("#!/bin/sh\n")
    (tmp_path / "python3").chmod(0o700)
    runtime.find_interpreter.cache_clear()
    try:
        with pytest.raises(runtime.CapabilityError, match="can't be read by other users"):
            runtime.find_interpreter()
    finally:
        monkeypatch.undo()
        runtime.find_interpreter.cache_clear()
