"""Every kind of edit of the generated document, deck and workbooks is found, alone; saving by other programs gives no
finding but for the losses that the benchmark states. LibreOffice counts where it is installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["document", "deck", "workbook_files"])
def test_edits_are_found_and_nothing_else(kind: str) -> None:
    environment = {**os.environ, "ENVKIT_CORPUS": "/nonexistent"}
    command = [sys.executable, str(ROOT / "benchmarks" / "diff_accuracy.py"), "--type", kind, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT, check=False)
    result = json.loads(done.stdout)[kind]
    assert result["kinds"] >= 40
    assert (result["recall"], result["precision"], result["unmirrored"], result["unused"]) == (1, 1, 0, [])
    assert not any(saved["surplus"] for saved in result["resaves"].values()), result["resaves"]
    assert done.returncode == 0, done.stderr
