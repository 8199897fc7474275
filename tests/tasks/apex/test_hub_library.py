"""The real `huggingface_hub` against a hub of ours on this machine: tokens, gates, the cache, one commit."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from synthetic import rows

pytestmark = pytest.mark.tokens
REPOSITORY, COMMIT, TOKEN = "mercor/apex-agents", "c0ffee" * 6 + "c0ff", "hf_ours"


class _Hub(BaseHTTPRequestHandler):
    """The hub's contract as far as it is used: resolve, tree, revision; everything is gated."""

    folder: ClassVar[Path]
    served: ClassVar[list[str]] = []

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        path = self.path.partition("?")[0]
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self._send(401, b"{}", {"X-Error-Code": "GatedRepo", "X-Error-Message": "log in"}, body)
            return
        prefix = f"/datasets/{REPOSITORY}/resolve/"
        if path.startswith(prefix):
            name = path.removeprefix(prefix).partition("/")[2].replace("%20", " ")
            file = self.folder / name
            if not file.is_file():
                self._send(404, b"", {"X-Error-Code": "EntryNotFound"}, body)
                return
            if body:
                self.served.append(name)
            data = file.read_bytes()
            etag = hashlib.sha256(data).hexdigest()
            self._send(200, data, {"X-Repo-Commit": COMMIT, "ETag": f'"{etag}"'}, body)
        elif path.startswith(f"/api/datasets/{REPOSITORY}/tree/"):
            files = [p for p in sorted(self.folder.rglob("*")) if p.is_file()]
            tree = [
                {
                    "type": "file",
                    "path": p.relative_to(self.folder).as_posix(),
                    "size": p.stat().st_size,
                    "oid": "0" * 40,
                }
                for p in files
            ]
            self._send(200, json.dumps(tree).encode(), {"Content-Type": "application/json"}, body)
        elif path.startswith(f"/api/datasets/{REPOSITORY}"):
            names = [p.relative_to(self.folder).as_posix() for p in sorted(self.folder.rglob("*")) if p.is_file()]
            info = {
                "id": REPOSITORY,
                "sha": COMMIT,
                "siblings": [{"rfilename": name} for name in names],
                "private": False,
                "gated": "manual",
                "disabled": False,
                "downloads": 0,
                "likes": 0,
                "tags": [],
            }
            self._send(200, json.dumps(info).encode(), {"Content-Type": "application/json"}, body)
        else:
            self._send(404, b"{}", {"X-Error-Code": "RepoNotFound"}, body)

    def _send(self, status: int, data: bytes, headers: dict[str, str], body: bool) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if body:
            self.wfile.write(data)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def hub(dataset: Path) -> Iterator[str]:
    _Hub.folder, _Hub.served = dataset, []
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Hub)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def envkit(hub: str, home: Path, *words: str, token: str | None = TOKEN) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own: the library reads its address when it is imported."""
    env = {**os.environ, "HF_ENDPOINT": hub, "HF_HOME": str(home / "hf"), "ENVKIT_HOME": str(home), "NO_PROXY": "*",
           "HF_HUB_DISABLE_XET": "1"}  # fmt: skip
    for name in ("HF_TOKEN", "HF_HUB_OFFLINE", "HF_HUB_CACHE"):
        env.pop(name, None)
    if token:
        env["HF_TOKEN"] = token
    return subprocess.run(
        [sys.executable, "-m", "envkit.cli.main", "apex", *words, "--json"],
        env=env, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip


def test_fetch_with_ones_own_token_then_offline(hub: str, tmp_path: Path) -> None:
    refused = envkit(hub, tmp_path, "fetch", token=None)
    assert refused.returncode == 2
    assert "accept its terms at https://huggingface.co/datasets/mercor/apex-agents" in refused.stdout
    done = envkit(hub, tmp_path, "fetch", "task-21")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["commit"] == COMMIT
    row = rows()[21]
    assert set(_Hub.served) == {
        "tasks_and_rubrics.json", "world_descriptions.json", f"world_files_zipped/{row['world_id']}.zip",
        *(f"task_files/{row['task_id']}/filesystem/{name}" for name in ("Inbox/Question 21.txt", "Notes.txt")),
    }  # fmt: skip
    before = len(_Hub.served)
    out = envkit(hub, tmp_path, "export", "task-3", str(tmp_path / "out"))  # of the same world
    assert out.returncode == 0, out.stdout
    assert len(_Hub.served) == before  # all of it is in the cache
    missing = envkit(hub, tmp_path, "fetch", "--repo", "mercor/other")
    assert missing.returncode == 2
    assert "gated, or there is none" in missing.stdout
    gone = envkit("http://127.0.0.1:9", tmp_path / "new", "fetch")
    assert gone.returncode == 2
    assert "can't be reached" in gone.stdout
