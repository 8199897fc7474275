"""Run folders for the viewer's tests, and a viewer that is asked without a socket."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

sys.path.append(str(Path(__file__).parent))

import make_run
from conftest_token import TOKEN

from envkit.view import create_app


@pytest.fixture(scope="session")
def rich(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A run with thirty plain trials, two with everything and a hostile one; never changed. The ids of the three."""
    root = tmp_path_factory.mktemp("viewed")
    run = root / "evening"
    make_run.write_run(run, trials=30, tasks=6)
    task = make_run.write_task(root / "task")
    ids = [make_run.write_rich_trial(run, task), make_run.write_rich_trial(run, task, sample=1, share=0.9)]
    ids.append(make_run.write_rich_trial(run, task, sample=2, hostile=True))
    return run, ids


@pytest.fixture(scope="session")
def client(rich: tuple[Path, list[str]]) -> Iterator[TestClient]:
    app = create_app({"evening": rich[0]}, TOKEN)
    with TestClient(app, base_url=f"http://127.0.0.1:8000/{TOKEN}/", follow_redirects=False) as client:
        yield client
