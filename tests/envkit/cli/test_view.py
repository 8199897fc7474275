"""`envkit view` as a user starts it: what it prints, what it refuses, and that it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from envkit.cli.main import main


def test_what_is_no_run_is_refused_with_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["view", str(tmp_path)]) == 2
    assert "holds no run" in capsys.readouterr().err
    assert main(["view", str(tmp_path), "--port", "70000"]) == 2
    assert "--port must be between" in capsys.readouterr().err


@pytest.mark.slow
def test_it_answers_at_its_secret_address_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    (tmp_path / "evening" / "trials").mkdir(parents=True)
    command = [sys.executable, "-m", "envkit.cli.main", "view", str(tmp_path), "--json", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        told = json.loads(process.stdout.readline())
        assert told["runs"] == {"evening": str(tmp_path / "evening")}
        address = told["address"]
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(address) as answer:
            assert b"envkit view" in answer.read()
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(address.rsplit("/", 2)[0] + "/")
        port = address.split(":")[2].split("/")[0]
        again = subprocess.run([*command, "--port", port], capture_output=True, text=True, timeout=60)
        assert again.returncode == 2
        assert "can't be used" in again.stdout
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(30) in (0, 130)
        assert "Traceback" not in process.stderr.read()
