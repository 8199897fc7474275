"""The fork server: children are separate, bounded, cleaned up after, and gone when their caller is."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from envkit.failure import UserError
from envkit.trial.client import CORE_MODULES, ForkServer
from envkit.trial.server import FORBIDDEN_MODULES, own_folder, process_age, temp_root


def server(**options: object) -> ForkServer:
    base = {"target": "server_targets:main", "sweep": "server_targets:sweep", "modules": ()}
    return ForkServer(**{**base, **options})  # type: ignore[arg-type]


def gone(pid: int) -> bool:
    return process_age(pid) is None


async def until(condition: Callable[[], bool], seconds: float = 5.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        await asyncio.sleep(0.02)
    return condition()


async def test_a_child_has_its_own_session_logs_and_temporary_folder(tmp_path: Path) -> None:
    async with server() as forks:
        folder = own_folder(forks.pid or 0)
        end = await forks.run(
            {"do": "report", "to": str(tmp_path / "report")},
            limit_s=30,
            stdout=tmp_path / "out",
            stderr=tmp_path / "err",
        )
        report = json.loads((tmp_path / "report").read_text())
        assert (end.code, end.signal, end.timed_out) == (0, None, False)
        assert report["session"] == report["pid"] != os.getsid(0)
        assert report["parent"] == forks.pid
        assert report["threads"] == 1
        assert Path(report["temp"]).parent == folder
        assert await until(lambda: not Path(report["temp"]).exists())
        assert (tmp_path / "out").read_text() == "said on stdout\n"
        assert (tmp_path / "err").read_text() == "said on stderr\n"
    assert not folder.exists()


async def test_ends_are_told_apart(tmp_path: Path) -> None:
    async with server() as forks:
        assert (await forks.run({"do": "exit", "code": 7}, limit_s=30)).code == 7
        killed = await forks.run({"do": "die", "signal": signal.SIGKILL}, limit_s=30)
        assert (killed.code, killed.signal) == (None, signal.SIGKILL)
        assert "SIGKILL" in killed.describe()
        thrown = await forks.run({"do": "raise"}, limit_s=30, stderr=tmp_path / "err")
        assert thrown.code == 70
        assert "thrown in the child" in (tmp_path / "err").read_text()


async def test_a_wedged_child_does_not_outlive_its_limit(tmp_path: Path) -> None:
    async with server() as forks:
        end = await forks.run({"do": "wedge"}, limit_s=0.3)
    assert end.timed_out
    assert end.signal == signal.SIGKILL


async def test_what_a_child_leaves_is_killed_and_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVER_TARGETS_SWEPT", str(tmp_path / "swept"))
    async with server() as forks:
        folder = own_folder(forks.pid or 0)
        await forks.run({"do": "litter", "to": str(tmp_path / "pid")}, limit_s=30)
        assert await until(lambda: gone(int((tmp_path / "pid").read_text())))
        assert await until(lambda: os.listdir(folder) == [])
        assert not (tmp_path / "swept").exists()  # it ended well: its sandbox is not an orphan
        await forks.run({"do": "die", "signal": 9}, limit_s=30)
        assert await until((tmp_path / "swept").exists)


async def test_children_run_side_by_side_and_can_be_stopped_one_by_one() -> None:
    async with server() as forks:
        numbers: list[int] = []
        runs = [
            asyncio.create_task(
                forks.run({"do": "sleep", "s": 60}, limit_s=90, on_start=lambda n, pid: numbers.append(n))
            )
            for _ in range(3)
        ]
        assert await until(lambda: len(numbers) == 3)
        forks.signal(numbers[1])
        end = await runs[1]
        assert end.signal == signal.SIGTERM
        assert not runs[0].done()
        forks.signal(numbers[0], signal.SIGKILL)
        forks.signal(numbers[2], signal.SIGKILL)
        await asyncio.gather(*runs)


async def test_cancelling_a_run_kills_its_child(tmp_path: Path) -> None:
    async with server() as forks:
        run = asyncio.create_task(forks.run({"do": "wedge", "to": str(tmp_path / "pid")}, limit_s=60))
        assert await until((tmp_path / "pid").exists)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert await until(lambda: gone(int((tmp_path / "pid").read_text())))


async def test_children_of_a_killed_server_die_and_the_next_run_starts_another(tmp_path: Path) -> None:
    async with server() as forks:
        run = asyncio.create_task(forks.run({"do": "wedge", "to": str(tmp_path / "pid")}, limit_s=60))
        assert await until((tmp_path / "pid").exists)
        first = forks.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        end = await run
        assert end.lost
        assert await until(lambda: gone(int((tmp_path / "pid").read_text())))
        assert (await forks.run({"do": "exit", "code": 3}, limit_s=30)).code == 3
        assert forks.pid != first
        assert not list(temp_root().glob(f"{first}-*"))


CALLER = """
import asyncio, sys
sys.path.append({plugins!r})
from envkit.trial.client import ForkServer
async def main():
    forks = ForkServer(target="server_targets:main", sweep=None, modules=())
    await forks.start()
    print(forks.pid, flush=True)
    await asyncio.gather(
        forks.run({{"do": "wedge", "to": {to!r} + "/wedged"}}, limit_s=600),
        forks.run({{"do": "lease", "to": {to!r} + "/lease"}}, limit_s=600),
    )
asyncio.run(main())
"""


async def test_when_the_caller_is_killed_all_are_gone_within_five_seconds(tmp_path: Path) -> None:
    plugins = str(Path(__file__).parent / "plugins")
    code = textwrap.dedent(CALLER).format(plugins=plugins, to=str(tmp_path))
    caller = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert caller.stdout is not None
    pid = int(caller.stdout.readline())
    folder = own_folder(pid)
    assert await until((tmp_path / "wedged").exists)
    caller.kill()
    caller.wait()
    caller.stdout.close()
    assert await until(lambda: gone(pid) and gone(int((tmp_path / "wedged").read_text())))
    assert (tmp_path / "lease").read_text() == "the job is gone"  # a child that listens can end cleanly
    assert not folder.exists()


async def test_a_plug_in_that_starts_a_thread_on_import_is_refused() -> None:
    forks = server(calls=("server_targets:start_thread",))
    with pytest.raises(UserError, match=r"server_targets:start_thread.*started 1 thread"):
        await forks.start()


async def test_a_plug_ins_own_preload_is_called_once_before_any_fork(tmp_path: Path) -> None:
    async with server(plugins=[("policies", "preloading:First"), ("policies", "preloading:Second")]) as forks:
        await forks.run({"do": "preloaded", "to": str(tmp_path / "count")}, limit_s=30)
        assert (tmp_path / "count").read_text() == "1"


async def test_a_plug_in_that_does_not_exist_is_refused_by_name() -> None:
    forks = server(plugins=[("harnesses", "opencoed")])
    with pytest.raises(UserError, match="opencoed"):
        await forks.start()


async def test_the_real_server_is_single_threaded_and_free_of_what_cannot_be_forked() -> None:
    async with ForkServer(
        [
            ("harnesses", "opencode"),
            ("sandboxes", "local"),
            ("policies", "oracle"),
            ("policies", "chat"),
            ("verifiers", "checks"),
            ("verifiers", "script"),
        ],
        modules=CORE_MODULES,
        calls=["envkit.trial.warm:local"],
    ) as forks:
        assert forks.info["forbidden"] == []
        assert len(os.listdir(f"/proc/{forks.pid}/task")) == 1
        maps = Path(f"/proc/{forks.pid}/maps").read_text()
        assert not [name for name in FORBIDDEN_MODULES if f"/{name}/" in maps]


def test_temporary_folders_live_below_one_root_that_gc_knows(tmp_path: Path) -> None:
    assert own_folder(os.getpid()).parent == temp_root()
