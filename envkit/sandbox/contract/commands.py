"""The contract of `exec`: exit codes, streams, environment, caps, order."""

from __future__ import annotations

import asyncio
import time

import pytest

from envkit.deadline import Deadline
from envkit.failure import DeadlineExceeded
from envkit.sandbox.contract.under_test import Contract, behaviour


@behaviour
async def test_exit_codes_are_reported(contract: Contract) -> None:
    async with contract.create() as sandbox:
        assert (await sandbox.exec(["true"])).ok
        assert (await sandbox.exec(["sh", "-c", "exit 42"])).exit_code == 42


@behaviour
async def test_a_signal_is_reported_as_such(contract: Contract) -> None:
    contract.needs(python=True)
    async with contract.create() as sandbox:
        assert (await sandbox.exec(["sh", "-c", "kill -TERM $$"])).exit_code == -15
        assert (await sandbox.exec(["sh", "-c", "kill -KILL $$"])).exit_code == -9


@behaviour
async def test_what_cant_be_started_is_a_result_with_the_reason(contract: Contract) -> None:
    async with contract.create() as sandbox:
        missing = await sandbox.exec(["no-such-command"])
        assert missing.exit_code == 127
        assert b"not found" in missing.stderr
        assert (await sandbox.exec(["/no/such/file"])).exit_code == 127
        assert (await sandbox.exec(["/etc/passwd"])).exit_code == 126


@behaviour
async def test_a_bad_working_directory_is_a_result_with_the_reason(contract: Contract) -> None:
    async with contract.create() as sandbox:
        nowhere = await sandbox.exec(["true"], cwd="/no/such/folder")
        assert nowhere.exit_code == 126
        assert b"/no/such/folder" in nowhere.stderr


@behaviour
async def test_stdin_is_fed_and_closed(contract: Contract) -> None:
    async with contract.create() as sandbox:
        assert (await sandbox.exec(["cat"], stdin=b"a\0b" * 1000)).stdout == b"a\0b" * 1000
        assert (await sandbox.exec(["cat"], stdin=b"")).stdout == b""
        assert (await sandbox.exec(["cat"])).stdout == b""


@behaviour
async def test_stdin_larger_than_every_buffer(contract: Contract) -> None:
    async with contract.create() as sandbox:
        data = bytes(range(256)) * (16 << 10)
        assert int((await sandbox.exec(["wc", "-c"], stdin=data)).stdout) == len(data)


@behaviour
async def test_a_command_that_ignores_its_stdin_ends(contract: Contract) -> None:
    async with contract.create() as sandbox:
        assert (await sandbox.exec(["true"], stdin=bytes(4 << 20), timeout_s=30)).exit_code == 0


@behaviour
async def test_the_working_directory_is_the_specs(contract: Contract) -> None:
    async with contract.create() as sandbox:
        assert (await sandbox.exec(["pwd"])).stdout == b"/filesystem\n"
        assert (await sandbox.exec(["pwd"], cwd="/tmp")).stdout == b"/tmp\n"


@behaviour
async def test_another_working_directory_is_made_and_writable(contract: Contract) -> None:
    async with contract.create(workdir="/elsewhere/space") as sandbox:
        assert (await sandbox.exec(["sh", "-c", "pwd; echo x > made; cat made"])).stdout == b"/elsewhere/space\nx\n"


@behaviour
async def test_environment_of_spec_and_of_command(contract: Contract) -> None:
    async with contract.create(env={"FOO": "spec", "BAR": "spec"}) as sandbox:
        shown = await sandbox.exec(["sh", "-c", 'echo $FOO $BAR; [ -n "$HOME" ] && cd && pwd'], env={"FOO": "call"})
        assert shown.stdout.splitlines()[0] == b"call spec"
        assert len(shown.stdout.splitlines()) == 2


@behaviour
async def test_nothing_of_our_environment_is_inside(contract: Contract) -> None:
    contract.needs(isolated=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ENVKIT_CONTRACT_SECRET", "very-secret-value")
        async with contract.create() as sandbox:
            assert b"very-secret-value" not in (await sandbox.exec(["env"])).stdout


@behaviour
async def test_argv_survives_as_it_is(contract: Contract) -> None:
    words = ["", " ", "*", "$HOME", "ü", "a\nb", "--", "'\"", "x" * 50_000]
    async with contract.create() as sandbox:
        shown = await sandbox.exec(["printf", "%s|", *words])
        assert shown.stdout == "|".join(words).encode() + b"|"


@behaviour
async def test_argv_must_be_a_sequence(contract: Contract) -> None:
    async with contract.create() as sandbox:
        with pytest.raises(ValueError, match="argv"):
            await sandbox.exec("ls -l")
        with pytest.raises(ValueError, match="argv"):
            await sandbox.exec([])


@behaviour
async def test_streams_are_apart_or_merged_in_order(contract: Contract) -> None:
    script = "for i in 1 2 3 4 5; do echo out$i; echo err$i >&2; done"
    async with contract.create() as sandbox:
        apart = await sandbox.exec(["sh", "-c", script])
        assert (apart.stdout.count(b"out"), apart.stderr.count(b"err")) == (5, 5)
        assert b"err" not in apart.stdout
        merged = await sandbox.exec(["sh", "-c", script], merge_stderr=True)
        assert merged.stdout.split() == [f"{name}{i}".encode() for i in range(1, 6) for name in ("out", "err")]
        assert merged.stderr == b""


@behaviour
async def test_output_beyond_the_cap_is_counted_from_either_end(contract: Contract) -> None:
    script = "printf aaaaaaaaaa; head -c 99980 /dev/zero | tr '\\0' b; printf cccccccccc"
    async with contract.create() as sandbox:
        head = await sandbox.exec(["sh", "-c", script], output_cap=20)
        assert (head.stdout, head.stdout_dropped) == (b"a" * 10 + b"b" * 10, 99980)
        tail = await sandbox.exec(["sh", "-c", script], output_cap=20, keep="tail")
        assert (tail.stdout, tail.stdout_dropped) == (b"b" * 10 + b"c" * 10, 99980)
        whole = await sandbox.exec(["sh", "-c", script], output_cap=100_000)
        assert (len(whole.stdout), whole.stdout_dropped) == (100_000, 0)


@behaviour
async def test_a_flood_neither_blocks_nor_vanishes_unannounced(contract: Contract) -> None:
    async with contract.create() as sandbox:
        size = 30 << 20
        result = await sandbox.exec(["head", "-c", str(size), "/dev/zero"], output_cap=1000)
        assert len(result.stdout) + result.stdout_dropped == size
        loud = await sandbox.exec(["sh", "-c", f"head -c {5 << 20} /dev/zero >&2"], output_cap=8 << 20)
        assert (len(loud.stderr), loud.stderr_dropped) == (5 << 20, 0)


@behaviour
async def test_output_is_bytes(contract: Contract) -> None:
    async with contract.create() as sandbox:
        data = bytes(range(256)) * 40
        assert (await sandbox.exec(["cat"], stdin=data)).stdout == data


@behaviour
async def test_commands_at_once_do_not_mix(contract: Contract) -> None:
    async with contract.create() as sandbox:
        results = await asyncio.gather(
            *(sandbox.exec(["sh", "-c", "cat; echo $N"], stdin=b"%d-" % n, env={"N": str(n)}) for n in range(12))
        )
        assert [r.stdout for r in results] == [b"%d-%d\n" % (n, n) for n in range(12)]


@behaviour
async def test_a_slow_command_holds_up_no_other(contract: Contract) -> None:
    async with contract.create() as sandbox:
        slow = asyncio.create_task(sandbox.exec(["sleep", "30"], timeout_s=60))
        began = time.monotonic()
        assert (await sandbox.exec(["echo", "quick"])).stdout == b"quick\n"
        assert time.monotonic() - began < 20
        slow.cancel()
        await asyncio.gather(slow, return_exceptions=True)


@behaviour
async def test_a_command_runs_without_rights(contract: Contract) -> None:
    contract.needs(isolated=True)
    async with contract.create() as sandbox:
        shown = await sandbox.exec(["grep", "-E", "^(CapEff|CapPrm|NoNewPrivs)", "/proc/self/status"])
        fields = dict(line.split(b":\t") for line in shown.stdout.splitlines())
        assert int(fields[b"CapEff"], 16) == int(fields[b"CapPrm"], 16) == 0
        assert fields[b"NoNewPrivs"] == b"1"
        assert (await sandbox.exec(["id", "-u"])).stdout != b"0\n"


@behaviour
async def test_a_deadline_that_has_passed_starts_nothing(contract: Contract) -> None:
    async with contract.create() as sandbox:
        with pytest.raises(DeadlineExceeded):
            await sandbox.exec(["touch", "/filesystem/ran"], deadline=Deadline.after(-1))
        assert not (await sandbox.exec(["ls", "/filesystem/ran"])).ok
