"""Run folders as jobs leave them, with everything the viewer shows in them; also for benchmarks/viewer.py.

`write_run` gives many trials with records alone, `write_rich_trial` one trial with a conversation, files, criteria and
a token trace, and `write_long_trial` one whose conversation and trace have about as many tokens as are asked for.
Everything is made by seed: the same run each time.
"""

from __future__ import annotations

import datetime as dt
import io
import json
import random
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from envkit.atif import build_trajectory
from envkit.failure import Boundary, Failure, FailureKind
from envkit.messages import AssistantMessage, Message, StopReason, ToolCall, ToolSpec, Usage, well_formed
from envkit.tokens.export import drop_finishes, export
from envkit.tokens.samples import write_samples
from envkit.tokens.scored import score_trace, write_scored
from envkit.tokens.store import TraceWriter
from envkit.tokens.trace import Trace
from envkit.trial.artifacts import write_artifacts
from envkit.trial.result import AttemptResult, AttemptSummary, Plugin, Status, TrialResult, TrialSpec, UsageTotals
from envkit.trial.store import json_text
from envkit.verifier import Criterion, Outcome, Verdict

BEGIN = dt.datetime(2026, 11, 30, 8, 0, tzinfo=dt.UTC)
VERBS = ("update", "check", "draft", "file", "compare", "summarise", "correct", "schedule", "prepare", "review")
NOUNS = ("forecast", "board-deck", "lease-abstract", "price-list", "tender-reply", "minutes", "budget", "invoice-run")
HOSTILE = (
    "<script>window.hacked=1</script><img src=x onerror=window.hacked=1> \x1b[31mred\x1b[0m \x07 \u202egnp.exe\u202c "
    "\ud83d half \x00 </pre><svg onload=window.hacked=1>"
)


def spec(task: str, sample: int = 0, model: str = "qwen-27b", **more: Any) -> TrialSpec:
    options = {"model": model, "base_url": "http://127.0.0.1:8000/v1"}
    return TrialSpec(task=task, sample=sample, seed=sample, policy=Plugin(name="chat", options=options), **more)


def verdict_of(rng: random.Random, share: float, *, missing: bool = False) -> Verdict:
    criteria = []
    for n in range(6):
        passed = rng.random() < share
        outcome = Outcome.MISSING if missing and n == 2 else Outcome.PASSED if passed else Outcome.FAILED
        criteria.append(
            Criterion(
                id=("total", "date", "untouched", "tone", "format", "source")[n],
                description="What the person who reads it would look at first",
                weight=1.0 + n % 3,
                outcome=outcome,
                score=None if outcome is Outcome.MISSING else float(passed),
                expected="1,284,300",
                actual="1,284,300" if passed else "1,248,300",
                where=f"Forecast.xlsx!Summary!B{n + 4}",
                message="" if passed else "the total leaves out the November correction",
                failure=None
                if outcome is not Outcome.MISSING
                else Failure.of(FailureKind.JUDGE_UNREACHABLE, Boundary.JUDGE, "the judge did not answer in 60 s"),
            )
        )
    total = sum(c.weight for c in criteria)
    got = sum(c.weight * c.score for c in criteria if c.score is not None) / total
    if missing:
        return Verdict(criteria=tuple(criteria), reward=None, lower=got, upper=got + 3.0 / total, verifier="checks")
    reward = round(got, 6)
    return Verdict(
        criteria=tuple(criteria),
        reward=reward,
        lower=reward,
        upper=reward,
        rewards={"reward": reward},
        verifier="checks",
    )


def record(spec: TrialSpec, number: int, rng: random.Random, share: float) -> TrialResult:
    """A finished trial: most scored, some failed, unscored or cancelled."""
    luck = rng.random()
    begun = BEGIN + dt.timedelta(seconds=number * 7)
    ended = begun + dt.timedelta(seconds=40 + rng.random() * 400)
    turns = rng.randint(3, 60)
    outcome: dict[str, Any]
    if luck < 0.88:
        verdict = verdict_of(rng, share)
        stop = StopReason.ANSWERED if rng.random() < 0.85 else rng.choice([StopReason.TURNS, StopReason.CONTEXT])
        outcome = {"status": Status.SCORED, "reward": verdict.reward, "verdict": verdict, "stop": stop}
    elif luck < 0.96:
        kind = rng.choice([FailureKind.SANDBOX_DIED, FailureKind.TOOL_SERVER_DIED, FailureKind.HARNESS_ERROR])
        message = "the sandbox's supervisor went away: exit code 137 (out of memory?)"
        outcome = {"status": Status.FAILED, "failure": Failure.of(kind, Boundary.SANDBOX, message)}
    else:
        verdict = verdict_of(rng, share, missing=True)
        outcome = {
            "status": Status.UNSCORED, "verdict": verdict, "failure": verdict.failures()[0],
            "lower": verdict.lower, "upper": verdict.upper, "missing": verdict.failures(), "stop": StopReason.ANSWERED,
        }  # fmt: skip
    attempt = AttemptSummary(
        attempt=1, status=outcome["status"], reward=outcome.get("reward"), started_at=begun, finished_at=ended,
        failure_kind=outcome["failure"].kind if outcome.get("failure") else None,
    )  # fmt: skip
    return TrialResult(
        trial_id=spec.trial_id,
        spec=spec,
        task_id=spec.task,
        final_answer="The forecast is updated; November's correction is in row 14.",
        usage=UsageTotals(
            prompt_tokens=turns * 9000, completion_tokens=turns * 310, max_context_tokens=turns * 900 + 6000,
            cost_usd=round(turns * 0.0021, 6),
        ),
        turns=turns,
        tool_calls=turns - 1,
        timings={"sandbox": 1.2, "agent": (ended - begun).total_seconds() - 4, "verify": 2.1, "artifacts": 0.3},
        started_at=begun,
        finished_at=ended,
        envkit_version="0.1.0",
        attempts=(attempt,),
        **outcome,
    )  # fmt: skip


def attempt_of(result: TrialResult, number: int = 1) -> AttemptResult:
    shared = set(TrialResult.model_fields) & set(AttemptResult.model_fields) - {"schema_version"}
    return AttemptResult(
        attempt=number, task=result.spec.task, **{name: getattr(result, name) for name in sorted(shared)}
    )


def put(run: Path, result: TrialResult, *, attempts: bool = True) -> Path:
    """A trial's folder with its records, and its line; plainly written, since nothing reads meanwhile."""
    folder = run / "trials" / result.trial_id
    (folder / "attempt-1" / "logs").mkdir(parents=True, exist_ok=True)
    (folder / "result.json").write_text(json_text(result.model_dump(mode="json")))
    with (run / "results.jsonl").open("a") as lines:
        lines.write(json.dumps(result.line()) + "\n")
    if not attempts:
        return folder
    (folder / "attempt-1" / "result.json").write_text(json_text(attempt_of(result).model_dump(mode="json")))
    (folder / "attempt-1" / "logs" / "stdout.log").write_text("started\nfinished\n")
    return folder


def write_plan(run: Path, specs: Iterable[TrialSpec]) -> None:
    (run / "trials").mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(s.model_dump(mode="json")) for s in specs)
    (run / "job.json").write_text(f'{{"schema_version": 1, "envkit_version": "0.1.0", "trials": [\n{lines}\n]}}\n')


def write_run(
    run: Path, trials: int = 60, tasks: int = 12, seed: int = 7, *, attempts: bool = True
) -> list[TrialResult]:
    """Many trials with records (and, unless told otherwise, their attempts'): tasks of different difficulty, two
    models."""
    rng = random.Random(seed)
    names = [f"office/{VERBS[n % 10]}-{NOUNS[n % 8]}-{n:03}" for n in range(tasks)]
    hard = {name: rng.random() for name in names}
    specs = [
        spec(names[n % tasks], n // tasks, model="qwen-27b" if n // tasks % 2 else "glm-4.5-air") for n in range(trials)
    ]
    write_plan(run, specs)
    results = []
    for number, one in enumerate(specs):
        results.append(record(one, number, rng, hard[one.task]))
        put(run, results[-1], attempts=attempts)
    return results


# -- one trial with everything ----------------------------------------------------------------------------------------


def write_task(folder: Path) -> Path:
    """A task directory with a world of a workbook, a memo, notes and a picture."""
    world = folder / "environment" / "world" / "filesystem"
    world.mkdir(parents=True)
    (folder / "task.toml").write_text('schema_version = "1.4"\n[environment]\nnetwork_mode = "no-network"\n')
    (folder / "instruction.md").write_text("Update the forecast and the memo.\n")
    (folder / "tests").mkdir()
    (folder / "tests" / "verifier.toml").write_text(
        'schema_version = "1"\n[[check]]\nid = "notes"\nkind = "file"\npath = "notes.txt"\nexists = true\n'
    )
    for name, data in world_files(0).items():
        (world / name).write_bytes(data)
    return folder


def world_files(version: int) -> dict[str, bytes]:
    return {
        "Forecast.xlsx": _workbook(version),
        "memo.docx": _document(version),
        "notes.txt": _notes(version),
        "chart.png": _picture(version),
    }


def _workbook(version: int) -> bytes:
    from openpyxl import Workbook

    book = Workbook()
    sheet = book.active
    sheet.title = "Summary"
    sheet.append(["Month", "Revenue", "Cost", "Margin"])
    for month in range(1, 13):
        revenue = 100_000 + month * 1_750 + (4_200 if version and month == 11 else 0)
        sheet.append([f"2026-{month:02}", revenue, 61_000 + month * 900, f"=B{month + 1}-C{month + 1}"])
    sheet.append(["Total", "=SUM(B2:B13)", "=SUM(C2:C13)", "=SUM(D2:D13)"])
    if version:
        sheet["F2"] = "November corrected, see memo"
    other = book.create_sheet("Assumptions")
    other.append(["Inflation", 0.021 + 0.004 * version])
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def _document(version: int) -> bytes:
    from docx import Document

    document = Document()
    document.add_heading("Forecast 2026", 1)
    document.add_paragraph(
        f"Revenue for the year is expected at {'1,340,700' if version else '1,336,500'} euros, all regions included."
    )
    document.add_heading("Method", 2)
    for n in range(6):
        document.add_paragraph(f"Paragraph {n + 1} explains how the figures of region {n + 1} were put together.")
    if version:
        document.add_paragraph("November was corrected for the late Aalsund invoice.")
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def _notes(version: int) -> bytes:
    lines = [f"{n:03} note about figure {n * 37 % 101}" for n in range(1, 600)]
    if version:
        lines[40] = "041 note about figure 99, corrected"
        lines.insert(300, "a line that is new <b>bold?</b>")
        del lines[500]
    return ("\n".join(lines) + "\n").encode()


def _picture(version: int) -> bytes:
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (480, 300), "#ffffff")
    draw = ImageDraw.Draw(image)
    for n, height in enumerate((90, 140, 120, 200, 160 + 60 * version)):
        draw.rectangle((40 + n * 84, 280 - height, 100 + n * 84, 280), fill="#2450b8" if n < 4 else "#17936b")
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def write_rich_trial(run: Path, task: Path, *, sample: int = 0, hostile: bool = False, share: float = 0.6) -> str:
    """A trial with conversation, files, criteria and tokens; its id."""
    rng = random.Random(11 + sample)
    one = spec(str(task), sample)
    result = record(one, sample, random.Random(3), share)
    if result.reward is None:
        raise AssertionError("choose another seed: this trial should be scored")
    if hostile:
        bad = Criterion(
            id="evil" + HOSTILE[:40],
            description=HOSTILE,
            outcome=Outcome.FAILED,
            score=0.0,
            actual=HOSTILE,
            where=HOSTILE,
        )
        result = result.model_copy(
            update={"final_answer": HOSTILE, "verdict": result.verdict.model_copy(update={"criteria": (bad,)})}
        )
    folder = put(run, result) / "attempt-1"
    messages = conversation(rng, turns=14, hostile=hostile)
    _write_trajectory(folder, result, messages)
    write_trace(folder / "logs" / "trace", messages, run / "tokenizer", rng)
    initial = task / "environment" / "world"
    final = folder / "final.tar"
    with tarfile.open(final, "w") as tar:
        _add(tar, "filesystem", None)
        for name, data in world_files(1).items():
            _add(tar, f"filesystem/{name}", data)
        _add(tar, "filesystem/reply.md", b"# Reply\n\nThe forecast is **updated**.\n")
        if hostile:
            _add(
                tar,
                "filesystem/<img src=x onerror=window.hacked=1>.html",
                HOSTILE.replace("\0", "").encode("utf-8", "replace"),
            )
    write_artifacts(final, initial, folder / "artifacts")
    final.unlink()
    return result.trial_id


def _add(tar: tarfile.TarFile, name: str, data: bytes | None) -> None:
    member = tarfile.TarInfo(name)
    member.type = tarfile.DIRTYPE if data is None else tarfile.REGTYPE
    member.mode = 0o755 if data is None else 0o644
    member.size = len(data or b"")
    tar.addfile(member, None if data is None else io.BytesIO(data))


TEXT = (
    "the quarter's revenue stands against plan while costs of region north were booked late and margin of all "
    "sheets follows from totals so that every figure in this table has a source which can be named"
)
WORDS = TEXT.split()


def prose(rng: random.Random, words: int) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(words)).capitalize() + "."


def conversation(
    rng: random.Random, turns: int, *, result_words: int = 90, hostile: bool = False
) -> list[Message | AssistantMessage]:
    out: list[Message | AssistantMessage] = [
        Message(role="system", content="You do office work on a computer.\n\n" + prose(rng, 120)),
        Message(role="user", content="Update Forecast.xlsx for November and tell what changed. " + prose(rng, 30)),
    ]
    context = 800
    for turn in range(turns - 1):
        context += 400 + result_words * 2
        usage = Usage(completion_tokens=90 + turn % 40, prompt_tokens=context, context_tokens=context + 90)
        if turn % 5 == 3:
            call = ToolCall.parse(f"c{turn}", "bash", '{"command": "ls')
        elif turn % 3 == 0:
            code = "import openpyxl\nbook = openpyxl.load_workbook('Forecast.xlsx')\nprint(book.sheetnames)\n"
            call = ToolCall(
                id=f"c{turn}", name="bash", arguments={"command": f"python3 - <<'E'\n{code}E", "timeout_s": 60}
            )
        else:
            call = ToolCall(
                id=f"c{turn}", name="read", arguments={"path": "/filesystem/notes.txt", "offset": turn * 40}
            )
        said = prose(rng, 24) if turn % 2 else ""
        reasoning = prose(rng, 60) if turn % 4 == 0 else None
        out.append(AssistantMessage(text=said, tool_calls=(call,), usage=usage, reasoning=reasoning, model="qwen-27b"))
        if call.error:
            content, failed = f"The call can't be read: {call.error}", True
        else:
            rows = "\n".join(f"{n:03} {prose(rng, 9)}" for n in range(max(1, result_words // 10)))
            content, failed = rows, turn % 7 == 4
        if hostile and turn == 1:
            content = HOSTILE + "\n" + "x" * 300_000 + "\n" + HOSTILE
        out.append(Message(role="tool", content=content, tool_call_id=call.id, name=call.name, is_error=failed))
    answer = HOSTILE if hostile else "Done: November is corrected by 4,200 and the total is 1,340,700."
    usage = Usage(completion_tokens=60, prompt_tokens=context, context_tokens=context + 60)
    out.append(AssistantMessage(text=answer, usage=usage, model="qwen-27b"))
    return out


def _write_trajectory(folder: Path, result: TrialResult, messages: list[Message | AssistantMessage]) -> None:
    tools = [ToolSpec(name=n, description=f"{n}: does what it says", parameters={}) for n in ("bash", "read", "edit")]
    about: dict[str, Any] = {"agent_name": "chat", "agent_version": "0.1.0", "harness": "opencode"}
    side = build_trajectory(
        [Message(role="user", content="A title for this conversation?"), AssistantMessage(text="Forecast update")],
        trajectory_id="title", **about,
    )  # fmt: skip
    trajectory = build_trajectory(
        messages, task=result.task_id, model="qwen-27b", tools=tools, stop=result.stop, subagents=[side], **about
    )
    # Half of a surrogate pair, as a JSON escape makes it: other programs write such files.
    (folder / "trajectory.json").write_text(json_text(trajectory.to_json()).replace("\ufffd half", "\\ud83d half"))


def write_tokenizer(folder: Path) -> dict[str, int]:
    """A byte-level vocabulary: the 256 bytes, some words with a blank before them, and two special tokens."""
    from envkit.view.vocabulary import _byte_table

    letters = {byte: char for char, byte in _byte_table().items()}
    vocab = {letters[byte]: byte for byte in range(256)}
    for word in dict.fromkeys(WORDS):
        vocab["".join(letters[b] for b in f" {word}".encode())] = len(vocab)
    added = [{"id": len(vocab), "content": "<|im_start|>"}, {"id": len(vocab) + 1, "content": "<|im_end|>"}]
    folder.mkdir(parents=True, exist_ok=True)
    value = {"model": {"type": "BPE", "vocab": vocab}, "added_tokens": added, "decoder": {"type": "ByteLevel"}}
    (folder / "tokenizer.json").write_text(json.dumps(value))
    return {f" {w}": vocab["".join(letters[b] for b in f" {w}".encode())] for w in dict.fromkeys(WORDS)} | {
        "<|im_start|>": len(vocab), "<|im_end|>": len(vocab) + 1
    }  # fmt: skip


def encode(text: str, words: dict[str, int]) -> list[int]:
    out: list[int] = []
    for n, piece in enumerate(text.split(" ")):
        whole = f" {piece}" if n else piece
        out += [words[whole]] if whole in words else list(whole.encode("utf-8", "replace"))
    return out


def write_trace(folder: Path, messages: list[Message | AssistantMessage], tokenizer: Path, rng: random.Random) -> int:
    """A trace of a conversation, half of it sampled by a newer version, one turn aborted; how many tokens it has."""
    words = write_tokenizer(tokenizer)
    meta = {"model": "qwen-27b", "tokenizer": str(tokenizer), "renderer": "qwen3", "temperature": 1.0}
    writer = TraceWriter(folder, meta)
    trace = Trace(meta, sink=writer)
    at: int | None = None
    pending: list[Message] = []
    for number, message in enumerate(messages):
        if isinstance(message, Message):
            pending.append(message)
            continue
        text = well_formed("".join(f"{m.role}\n{m.content[:20_000]}\n" for m in pending))
        pending = [m.model_copy(update={"content": well_formed(m.content)}) for m in pending]
        at = trace.add_context([words["<|im_start|>"], *encode(text, words)], pending, parent=at).index
        pending = []
        message = message.model_copy(update={"text": well_formed(message.text)})
        said = message.text + "".join(f"\n{c.name} {c.arguments_text}" for c in message.tool_calls)
        ids = [*encode((message.reasoning or "") + said, words), words["<|im_end|>"]]
        logprobs = [-min(9.0, rng.expovariate(3.0)) for _ in ids]
        version = 4 if number < len(messages) // 2 else 5
        finish = "abort" if number == 10 else "stop"
        at = trace.add_sampled(at, message, ids, logprobs, [version] * len(ids), finish=finish).index
    side = trace.add_context(
        encode("a title for this?", words), [Message(role="user", content="A title?")], thread="title"
    )
    trace.add_sampled(
        side.index, AssistantMessage(text="Update"), encode("Update", words), [-0.2] * 6, [5] * 6, finish="stop"
    )
    writer.finish(trace)
    write_samples(folder, export(trace, drop=drop_finishes("abort")))
    noise = random.Random(5)

    def score(ids: Any) -> Any:
        import numpy as np

        known = {int(i): v for i, v in enumerate(logprob_of)}
        return np.array([known[n] + noise.gauss(0, 0.004) for n in range(1, len(ids))], np.float32)

    out = export(trace)
    if out.samples:
        longest = max(out.samples, key=lambda s: len(s.ids))
        logprob_of = longest.logprobs.tolist()
        whole = type(out)(samples=(longest,), sampled=out.sampled, delivered=out.delivered, dropped=out.dropped)
        write_scored(folder, score_trace(trace, whole, score), {"model": "trainer at step 5", "version": None})
    return sum(len(n.ids) for n in trace)


def write_long_trial(run: Path, tokens: int = 160_000) -> str:
    """One trial whose trace has about `tokens` tokens; its id."""
    rng = random.Random(23)
    write_tokenizer(run / "tokenizer")
    one = spec("office/long-haul", 0)
    result = record(one, 1, random.Random(3), 0.6)
    folder = put(run, result) / "attempt-1"
    messages = conversation(rng, turns=max(4, tokens // 640), result_words=300)
    _write_trajectory(folder, result, messages)
    write_trace(folder / "logs" / "trace", messages, run / "tokenizer", rng)
    return result.trial_id
