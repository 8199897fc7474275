"""What the viewer answers, and whom: foreign hosts, missing secrets, paths that lead elsewhere, hostile texts."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import shutil
import tarfile
import time
from pathlib import Path
from typing import Any

import pytest
from conftest_token import TOKEN
from starlette.testclient import TestClient

from envkit.trial.artifacts import write_artifacts
from envkit.view import create_app

Rich = tuple[Path, list[str]]


def get(client: TestClient, path: str, **params: Any) -> Any:
    answer = client.get(path, params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "evil.example:8000", "", "127.0.0.1:80:80", "[::2]"]
)
def test_a_foreign_host_is_refused_with_the_secret_too(client: TestClient, host: str) -> None:
    answer = client.get("api/runs", headers={"host": host})
    assert answer.status_code == 421
    assert "evening" not in answer.text


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:9000", "[::1]:8000"])
def test_this_machine_by_any_of_its_names_is_answered(client: TestClient, host: str) -> None:
    assert client.get("api/runs", headers={"host": host}).status_code == 200


def test_without_the_secret_there_is_nothing(rich: Rich) -> None:
    client = TestClient(create_app({"evening": rich[0]}, TOKEN), base_url="http://127.0.0.1:8000")
    for path in (
        "/",
        "/api/runs",
        f"/{TOKEN[:-1]}/api/runs",
        f"/{TOKEN}x/api/runs",
        f"//{TOKEN}/api/runs",
        f"/x/{TOKEN}/",
    ):
        answer = client.get(path)
        assert answer.status_code == 404, path
        assert "evening" not in answer.text


def test_it_only_reads_and_only_for_its_own_page(client: TestClient) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        assert client.request(method, "api/runs").status_code == 405
    told = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
    assert client.get("api/runs", headers=told).status_code == 403
    assert client.get("", headers={"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}).status_code == 200


def test_every_answer_forbids_what_is_not_ours(client: TestClient) -> None:
    for path in ("", "api/runs", "assets/app.js", "nowhere"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


def test_the_page_runs_what_is_its_own_alone_whatever_a_run_is_called(tmp_path: Path) -> None:
    evil = tmp_path / "<script>alert(1)<" / "{{START}}<!--<script>"
    (evil / "trials").mkdir(parents=True)
    client = TestClient(create_app({"run": evil}, TOKEN), base_url=f"http://127.0.0.1:8000/{TOKEN}/")
    answer = client.get("")
    assert answer.text.count("<script") == 3, "the data, the one that begins, the application"
    given = answer.text.split('id="given">')[1].split("</script>")[0]
    assert json.loads(given)["runs"][0]["path"] == str(evil)
    policy = answer.headers["content-security-policy"]
    for kind in ("script", "style"):
        text = answer.text.split(f"<{kind}>")[1].split(f"</{kind}>")[0]
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'self' 'sha256-{digest}'" in policy


@pytest.mark.parametrize(
    "path",
    [
        "assets/..%2fapp.py", "assets/%2e%2e%2fapp.py", "assets/.%00", "api/runs/..%2f..",
        "api/runs/evening/trials/%2e%2e",
        "api/runs/evening/trials/..%2f..%2fjob.json", "api/runs/evening/trials/%2e%2e/conversation",
        "api/runs/evening/trials/%2e", "api/runs/nobody", "api/runs/evening/trials/nobody/conversation",
    ],
)  # fmt: skip
def test_paths_that_lead_elsewhere_lead_nowhere(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code in (404, 307), answer.text
    assert "schema_version" not in answer.text


def test_parameters_never_become_paths(client: TestClient, rich: Rich) -> None:
    trial = f"api/runs/evening/trials/{rich[1][0]}"
    for name in ("../result.json", "/etc/passwd", "stdout.log/../../result.json", "trace/trace.json"):
        assert client.get(f"{trial}/log", params={"name": name}).status_code == 404
    assert get(client, f"{trial}/log", name="stdout.log")["text"] == "started\nfinished\n"
    for path in ("../../job.json", "filesystem/../../x", "/etc/passwd", "", "filesystem"):
        assert client.get(f"{trial}/file", params={"path": path}).status_code == 404
        assert client.get(f"{trial}/raw", params={"path": path, "side": "before"}).status_code == 404
    assert client.get(f"{trial}/files", params={"state": ".."}).status_code == 404
    for name, value in (("start", "-1"), ("start", "1e9"), ("count", "x"), ("attempt", "../1"), ("attempt", "९")):
        assert client.get(f"{trial}/page", params={name: value}).status_code == 400


def test_a_trial_that_is_a_link_out_of_the_run_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret" / "attempt-1").mkdir(parents=True)
    (tmp_path / "secret" / "attempt-1" / "trajectory.json").write_text(
        '{"steps": [{"source": "user", "message": "secret"}]}'
    )
    run = tmp_path / "run"
    (run / "trials").mkdir(parents=True)
    (run / "trials" / "evil").symlink_to(tmp_path / "secret")
    (run / "results.jsonl").write_text(json.dumps({"trial_id": "evil", "status": "scored", "reward": 1}) + "\n")
    client = TestClient(create_app({"run": run}, TOKEN), base_url=f"http://127.0.0.1/{TOKEN}/")
    answer = client.get("api/runs/run/trials/evil/conversation")
    assert answer.status_code == 404
    assert "secret" not in answer.text


def test_pages_of_the_list_are_whole_together(client: TestClient) -> None:
    first = get(client, "api/runs/evening/trials", limit=20, sort="task", down=0)
    second = get(client, "api/runs/evening/trials", limit=20, offset=20, sort="task", down=0, facets=0)
    assert first["total"] == second["total"] == 33
    ids = [row["id"] for row in first["rows"] + second["rows"]]
    assert len(set(ids)) == 33
    assert "facets" in first
    assert "facets" not in second
    near = get(client, "api/runs/evening/trials", sort="task", down=0, around=ids[20])
    assert near["place"] == 20
    assert [row["id"] for row in near["rows"]] == ids[19:22]


def test_a_trial_says_what_it_came_to(client: TestClient, rich: Rich) -> None:
    detail = get(client, f"api/runs/evening/trials/{rich[1][0]}")
    assert detail["status"] == "scored"
    assert detail["has"] == {"conversation": True, "files": True, "tokens": True}
    assert len(detail["verdict"]["criteria"]) == 6
    assert detail["outcome"]["usage"]["completion_tokens"] > 0


def test_hostile_texts_are_carried_as_they_are(client: TestClient, rich: Rich) -> None:
    trial = f"api/runs/evening/trials/{rich[1][2]}"
    raw = client.get(f"{trial}/page", params={"count": 60})
    assert raw.headers["content-type"] == "application/json"
    assert raw.text.isascii(), "half of a surrogate pair is an escape, and breaks no encoder"
    texts = [part["text"] for item in json.loads(raw.text)["items"] for part in item["parts"]]
    evil = next(text for text in texts if "\ud83d half" in text)
    assert "<script>window.hacked=1</script>" in evil
    assert "\x1b[31m" in evil
    assert len(evil) == 6_000, "cut, with its length told"
    sizes = [part["size"] for item in json.loads(raw.text)["items"] for part in item["parts"]]
    assert max(sizes) > 300_000


def test_damaged_files_cost_their_view_alone(tmp_path: Path) -> None:
    trial = tmp_path / "trials" / "a" / "attempt-1"
    (trial / "logs" / "trace").mkdir(parents=True)
    (tmp_path / "results.jsonl").write_text(json.dumps({"trial_id": "a", "status": "scored", "reward": 1}) + "\n")
    for name in ("trajectory.json", "result.json", "logs/trace/trace.json"):
        (trial / name).write_text("{torn")
    client = TestClient(create_app({"run": tmp_path}, TOKEN), base_url=f"http://127.0.0.1/{TOKEN}/")
    detail = get(client, "api/runs/run/trials/a")
    assert detail["verdict"] is None
    for part in ("conversation", "tokens"):
        answer = client.get(f"api/runs/run/trials/a/{part}")
        assert answer.status_code == 422
        assert "can't be read" in answer.json()["error"]
    (trial / "trajectory.json").write_text("[" * 100_000)
    assert client.get("api/runs/run/trials/a/conversation").status_code == 422


def test_what_is_no_file_of_the_runs_is_an_error_at_once(rich: Rich, tmp_path: Path) -> None:
    run, base = tmp_path / "run", "api/runs/run/trials/v3~g1~0"
    attempt = run / "trials" / "v3" / "g1" / "0" / "attempt-1"
    shutil.copytree(rich[0] / "trials" / rich[1][0] / "attempt-1", attempt)
    (run / "plan.toml").write_text("")
    client = TestClient(create_app({"run": run}, TOKEN), base_url=f"http://127.0.0.1/{TOKEN}/")
    shown = {
        "conversation": "trajectory.json",
        "tokens": "logs/trace/trace.json",
        "files": "artifacts/manifest.json",
        "file?path=filesystem/memo.docx": "artifacts/changed.tar.gz",
    }
    secret = tmp_path / "secret"
    secret.write_text('{"steps": [{"source": "user", "message": "secret"}], "changed": [{"path": "secret"}]}')
    for part, name in shown.items():
        whole = (attempt / name).read_bytes()
        (attempt / name).unlink()
        for spoil in (os.mkfifo, lambda path: path.symlink_to("/dev/zero"), lambda path: path.symlink_to(secret)):
            spoil(attempt / name)
            answer = client.get(f"{base}/{part}")
            assert answer.status_code in (404, 422), (part, answer.text)
            assert "error" in answer.json()
            assert '"secret"' not in answer.text
            assert client.get(f"{base}/open", params={"tab": part}).status_code == 200
            (attempt / name).unlink()
        (attempt / name).write_bytes(whole)
    (attempt / "artifacts" / "manifest.json").write_text('{"changed": true, "deleted": 7}')
    assert get(client, f"{base}/files")["count"] == 0
    shutil.rmtree(attempt / "logs")
    (attempt / "logs").symlink_to("/etc")
    assert client.get(f"{base}/log", params={"name": "passwd"}).status_code == 422
    shutil.rmtree(run)
    assert client.get(f"{base}/conversation").status_code == 404


def test_rollouts_that_a_training_run_kept_are_read_like_trials(rich: Rich, tmp_path: Path) -> None:
    run = tmp_path / "training"
    kept = [run / "trials" / place for place in ("v3/g0000007/5", "evaluation-v9/office-memo/0")]
    for folder in kept:
        shutil.copytree(rich[0] / "trials" / rich[1][0] / "attempt-1", folder / "attempt-1")
    (run / "trials" / "v4" / "g0000008" / "0" / "attempt-1" / "logs").mkdir(parents=True)  # it runs
    (run / "plan.toml").write_text("")
    (run / "plan.json").write_text("{}")
    (tmp_path / "elsewhere" / "0" / "attempt-1").mkdir(parents=True)
    (run / "trials" / "v4" / "away").symlink_to(tmp_path / "elsewhere")
    app = create_app({"training": run}, TOKEN)
    with TestClient(app, base_url=f"http://127.0.0.1:8000/{TOKEN}/", follow_redirects=False) as client:
        found = get(client, "api/runs/training/trials", sort="task", down=0)
        assert found["kept"] is True
        rows = {row["id"]: row for row in found["rows"]}
        first, second = "v3~g0000007~5", "evaluation-v9~office-memo~0"
        assert rows.keys() == {first, second, "v4~g0000008~0"}, "what a link leads to is not the run's"
        assert [rows[i]["status"] for i in (first, "v4~g0000008~0")] == ["scored", "running"]
        assert (rows[first]["sample"], rows[first]["model"]) == (5, "v3")
        assert rows[second]["model"] == "evaluation at v9"
        assert found["facets"]["model"] == {"v3": 1, "evaluation at v9": 1, "v4": 1}

        opened = get(client, f"api/runs/training/trials/{first}/open", tab="conversation")
        assert (opened["id"], opened["sample"], opened["model"]) == (first, 5, "v3")
        assert opened["verdict"]["criteria"]
        assert opened["first"]["conversation"]["outline"]
        assert get(client, f"api/runs/training/trials/{first}/files", attempt=1)["count"]
        for name in ("v4~away~0", "v3", "v3~g0000007", "v3~g0000007~6", "..~..~elsewhere"):
            assert client.get(f"api/runs/training/trials/{name}").status_code == 404, name

        # What is not kept goes; what ended is there.
        shutil.copytree(kept[0] / "attempt-1", run / "trials" / "v4" / "g0000008" / "0" / "attempt-2")
        shutil.rmtree(kept[1])
        time.sleep(1.1)  # it looks once a second
        rows = {row["id"]: row for row in get(client, "api/runs/training/trials")["rows"]}
        assert rows["v4~g0000008~0"]["status"] == "scored"
        assert second not in rows


def test_files_with_odd_names_are_opened(rich: Rich, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(rich[0] / "trials" / rich[1][0], run / "trials" / rich[1][0])
    shutil.copy(rich[0] / "results.jsonl", run)
    names = ["a\nb.txt", "c\r\nd", "di\nr/ e?&#%41+.txt", "t\n", "\udcff.txt", "%ED%B3%BF.txt"]
    final = tmp_path / "final.tar"
    with tarfile.open(final, "w", format=tarfile.PAX_FORMAT) as tar:
        for number, name in enumerate(names):
            info = tarfile.TarInfo(f"filesystem/{name}")
            info.size = 6
            tar.addfile(info, io.BytesIO(f"text {number}".encode()))
    artifacts = run / "trials" / rich[1][0] / "attempt-1" / "artifacts"
    shutil.rmtree(artifacts)
    artifacts.mkdir()
    write_artifacts(final, None, artifacts)
    with TestClient(create_app({"run": run}, TOKEN), base_url=f"http://127.0.0.1/{TOKEN}/") as client:
        trial = f"api/runs/run/trials/{rich[1][0]}"
        listed = {f["path"]: f.get("key", f["path"]) for f in get(client, f"{trial}/files")["files"]}
        for number, name in enumerate(names):
            asked = {"path": listed[f"filesystem/{name}"]}
            asked["path"].encode()  # an address takes nothing else
            shown = client.get(f"{trial}/file", params=asked).json()
            assert shown["path"] == f"filesystem/{name}"
            assert shown["after"]["lines"] == [["line", f"text {number}"]]
            assert client.get(f"{trial}/raw", params=asked).content == f"text {number}".encode()
