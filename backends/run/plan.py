"""The plan of a training run: one TOML, strict, every field documented, the whole of what a run is told.

    plan = read_plan(Path("run.toml"), ["loop.group_size=8"])

A backend (`backend = "torch"`, an entry point of `envkit.backends`) brings its own tables as a subclass of `Plan`
(`plan_model`): the model, the optimiser, the engines. Everything else is the same for all backends. A key that nobody
knows is an error that names the nearest known one. Needs neither torch nor numpy. Used by `envkit train`, `envkit
ablate` and whoever builds a run in Python.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from envkit import plugins, registry
from envkit.backends.algorithms.config import AlgorithmConfig
from envkit.backends.guards.config import GuardsConfig
from envkit.backends.loop.config import EvaluationConfig, LoopConfig
from envkit.failure import UserError
from envkit.harness import Limits
from envkit.policy.options import describe_faults
from envkit.trial.result import Plugin
from envkit.trial.rollouts import Keep, TrialSettings

if TYPE_CHECKING:
    from envkit.trial.executor import Executor

__all__ = [
    "AlarmsPlan",
    "BatchPlan",
    "EvaluationPlan",
    "HarnessPlan",
    "Plan",
    "PolicyPlan",
    "SandboxPlan",
    "TasksPlan",
    "TrialPlan",
    "WandbPlan",
    "WatchingPlan",
    "assigned",
    "listed_turns",
    "make_plan",
    "read_plan",
    "read_table",
    "tasks_of",
]

#: Of a plan's file.
_MOST_BYTES = 4 << 20

Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)


class TasksPlan(_Strict):
    """What is trained on."""

    include: tuple[str, ...] = ()
    """Ids, globs (`office/*`) or paths of task directories."""
    file: Path | None = None
    """A task list, one id a line, as `envkit select` writes it; together with `include`, the tasks of both."""
    exclude: tuple[str, ...] = ()
    """Ids or globs that are left out."""
    split: str | None = None
    """Only tasks of this split."""
    shuffle: bool = True
    """A new order in every epoch, from `loop.seed`; off: the given order in every epoch."""
    buckets: Annotated[int, Field(ge=1)] = 1
    """Groups that begin after one another come from so many buckets of tasks of about equal length (`expected_turns`
    in a task's metadata, or the turns in a task list), so that a batch's trajectories are alike. 1: no buckets."""

    @model_validator(mode="after")
    def _some(self) -> TasksPlan:
        if not self.include and self.file is None:
            raise ValueError("expected tasks in `include` or a task list in `file`, found neither")
        return self


class HarnessPlan(Plugin):
    """What the model sees and may do."""

    name: str = "opencode"


class SandboxPlan(Plugin):
    """Where tasks happen."""

    name: str = "local"


class PolicyPlan(_Strict):
    """How the model is spoken to."""

    tokenizer: str | None = None
    """Folder or cached name of the tokenizer; by default the model's folder."""
    renderer: str = "auto"
    """A family of the `renderers` package, `template`, or `auto`."""
    renderer_options: dict[str, Any] = {}
    """The renderer's own (`enable_thinking`, `thinking_retention`, ...)."""
    context: Annotated[int, Field(ge=2)] | None = None
    """Tokens of prompt and completion together, in training; None for the engines' own limit."""
    max_turn_tokens: Count | None = None
    """Longest completion of one turn; None for what is left of the context."""
    seeded: bool = False
    """Ask engines for reproducible sampling."""
    request_timeout_s: Annotated[float, Field(gt=0)] | None = None
    """Longest wait for one answer of an engine; None leaves it to the attempt's budget."""
    api_key_env: str | None = None
    """Environment variable with the engines' key, if they want one."""


class TrialPlan(_Strict):
    """Where and how long trials run, and what of them stays."""

    executor: str = "process"
    """Where attempts run: `process` (this machine), `ray`, or another registered executor."""
    timeout_s: Annotated[float, Field(gt=0, le=30 * 86_400)] = 3600.0
    """Wall-clock budget of one attempt, queueing and verification included. Its expiry is a fault, never a reward."""
    verify_reserve_s: Annotated[float, Field(ge=0)] = 300.0
    """The part of the budget that only verification may use."""
    keep: Keep = Keep()

    @model_validator(mode="after")
    def _fits(self) -> TrialPlan:
        if self.verify_reserve_s >= self.timeout_s:
            raise ValueError(
                f"verify_reserve_s ({self.verify_reserve_s:g}) must be less than timeout_s ({self.timeout_s:g}): "
                "nothing would be left for the agent"
            )
        return self


class BatchPlan(_Strict):
    """How rows are put together for the trainer."""

    tokens_per_micro_batch: Count = 32_768
    """Tokens that go through the model together; a longer row stands alone."""


class EvaluationPlan(EvaluationConfig):
    """Evaluating while training. Absent: there is none."""

    include: tuple[str, ...] = ()
    """Ids, globs or paths; by default those of `tasks.include`, of the split below."""
    file: Path | None = None
    """A task list, one id a line."""
    split: str = "eval"
    """Only tasks of this split; an empty text for all."""
    held_out: bool = True
    """Tasks that are trained on are an error; off for an overfit run, which is measured on its own tasks."""
    allow_overlap: bool = False
    """Tasks that are nearly those that are trained on (`envkit pack overlap`: instruction, files, expected result) are
    an error too; on: they are told and evaluated. Without `held_out` nothing is compared."""
    samples: Count = 1
    """Trials per task: k of pass@k."""
    context: Annotated[int, Field(ge=2)] | None = None
    """Tokens of prompt and completion together; None for the engines' own limit."""
    max_turn_tokens: Count | None = None
    """Longest completion of one turn; None: as in training."""
    temperature: Annotated[float, Field(ge=0)] | None = None
    """Of sampling; None: as in training."""
    harness: HarnessPlan | None = None
    """Another harness than training's: does what was learnt carry over?"""
    limits: Limits | None = None
    """Other agent limits than training's."""
    timeout_s: Annotated[float, Field(gt=0, le=30 * 86_400)] | None = None
    """Another wall-clock budget than training's."""
    solved_at: float = 1.0
    """The reward from which a trial counts as solved, for pass@k."""


class WandbPlan(_Strict):
    """Weights & Biases, where `wandb` is installed."""

    project: str
    """The project that the run is shown in."""
    entity: str | None = None
    """The user or team; by default your own."""
    name: str | None = None
    """By default the run folder's name."""
    mode: Literal["online", "offline"] = "online"
    """`offline` writes into the run folder; `wandb sync` uploads it later."""


class AlarmsPlan(_Strict):
    """When watching says that something is wrong. An alarm never changes the run, except for the gap's, if asked."""

    gap: Annotated[float, Field(gt=0)] = 0.03
    """Mean absolute difference of rollout's and trainer's logprobs, in nats, at which engine and trainer disagree."""
    gap_stops: bool = False
    """Stop the run, resumable, when the gap is above that in two steps in a row."""
    window: Annotated[int, Field(ge=2)] = 8
    """Steps that a change is held against."""
    jump: Share = 0.25
    """A rise of the mean reward over the window's mean by this much, and by four standard errors, is sudden."""
    saturated: Share = 0.95
    """A mean reward of at least this, with hardly any variance, is saturation; sudden saturation is suspect."""
    family_rollouts: Annotated[int, Field(ge=2)] = 8
    """Rollouts that a task family needs, before and after, to be held against the others."""


class WatchingPlan(_Strict):
    """What is written and shown. `metrics.jsonl` and the report always are."""

    live: Literal["auto", "lines", "off"] = "auto"
    """A live view on standard error where that is a terminal, else a line a step; `lines` and `off` force."""
    tensorboard: bool = True
    """Write TensorBoard event files into `tensorboard/`."""
    wandb: WandbPlan | None = None
    alarms: AlarmsPlan = AlarmsPlan()
    report_every_s: Annotated[float, Field(gt=0)] = 60.0
    """The HTML report is written anew at most this often, and at the end."""


class Plan(_Strict):
    """A training run. `backend` decides which further tables there are."""

    backend: str = "torch"
    """The trainer: a registered name of the entry points `envkit.backends`."""
    storage: str | None = None
    """Where checkpoints and the experience buffer become durable: `s3://bucket/prefix` or a folder; by default the
    run's own folder."""
    tasks: TasksPlan
    harness: HarnessPlan = HarnessPlan()
    sandbox: SandboxPlan = SandboxPlan()
    limits: Limits = Limits()
    policy: PolicyPlan = PolicyPlan()
    trial: TrialPlan = TrialPlan()
    algorithm: AlgorithmConfig = AlgorithmConfig()
    loop: LoopConfig
    batch: BatchPlan = BatchPlan()
    evaluation: EvaluationPlan | None = None
    watching: WatchingPlan = WatchingPlan()
    guards: GuardsConfig = GuardsConfig()

    @model_validator(mode="after")
    def _consistent(self) -> Plan:
        if self.loop.evaluation is not None:
            raise ValueError("[loop.evaluation] has no place in a plan; all about evaluations is in [evaluation]")
        if self.algorithm.needs_values:
            raise ValueError(
                "algorithm.advantage = 'gae' needs a critic's values, which no trainer here has; choose grpo, rloo, "
                "maxrl or reinforce++"
            )
        return self

    @property
    def model_folder(self) -> str | None:
        """Where the model's tokenizer is, if the backend's tables say so."""
        return None

    def executor(self) -> str | Executor:
        """Where trials run: a registered name, or an executor that a backend's tables make, once a run."""
        return self.trial.executor

    @property
    def tokenizer(self) -> str:
        """The tokenizer of the policy. Raises `UserError` where nothing names one."""
        found = self.policy.tokenizer or self.model_folder
        if found is None:
            raise UserError("the plan names no tokenizer: set policy.tokenizer to the folder of the model's")
        return found

    @property
    def loop_config(self) -> LoopConfig:
        """The loop's table with its part of `[evaluation]`."""
        when = self.evaluation
        if when is None:
            return self.loop
        fields = {name: getattr(when, name) for name in EvaluationConfig.model_fields}
        return self.loop.model_copy(update={"evaluation": EvaluationConfig(**fields)})

    def trial_settings(self) -> TrialSettings:
        """Trials of training: the nudge is on."""
        policy, trial = self.policy, self.trial
        return TrialSettings(
            harness=Plugin(**self.harness.model_dump()),
            sandbox=Plugin(**self.sandbox.model_dump()),
            limits=self.limits,
            timeout_s=trial.timeout_s,
            verify_reserve_s=trial.verify_reserve_s,
            tokenizer=self.tokenizer,
            renderer=policy.renderer,
            renderer_options=policy.renderer_options,
            temperature=self.loop.temperature,
            context_limit=policy.context,
            max_turn_tokens=policy.max_turn_tokens,
            seeded=policy.seeded,
            request_timeout_s=policy.request_timeout_s,
            api_key_env=policy.api_key_env,
        )

    def evaluation_settings(self) -> TrialSettings | None:
        """Trials of the evaluation: the nudge is off, the context its own; None where there is none."""
        own = self.evaluation
        if own is None:
            return None
        base = self.trial_settings()
        timeout_s = own.timeout_s or base.timeout_s
        return base.model_copy(
            update={
                "harness": Plugin(**own.harness.model_dump()) if own.harness else base.harness,
                "limits": own.limits or base.limits,
                "timeout_s": timeout_s,
                "verify_reserve_s": min(base.verify_reserve_s, timeout_s / 2),
                "temperature": base.temperature if own.temperature is None else own.temperature,
                "context_limit": own.context,
                "max_turn_tokens": own.max_turn_tokens or base.max_turn_tokens,
            }
        )


def read_table(path: Path, sets: Iterable[str] = ()) -> dict[str, Any]:
    """A TOML file with `key.path=value` overrides laid over it, not yet validated.

    Raises:
        UserError: The file can't be read as TOML, or an override has another form.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise UserError(f"the plan {path} has more than {_MOST_BYTES >> 20} MiB; expected a plan, which is a page")
        table = tomllib.loads(data.decode("utf-8"))
    except OSError as error:
        raise UserError(f"the plan {path} can't be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:  # no TOML, no UTF-8, a number of thousands of digits, a tower
        raise UserError(f"{path} is not valid TOML: {error}") from error
    return assigned(sets, table)


def assigned(sets: Iterable[str], table: dict[str, Any] | None = None) -> dict[str, Any]:
    """`key.path=value` texts laid over a table, each value as TOML reads it. Raises `UserError` for another form."""
    table = {} if table is None else table
    for text in sets:
        _set(table, text)
    return table


def _set(table: dict[str, Any], text: str) -> None:
    name, equals, raw = text.partition("=")
    keys = name.strip().split(".")
    if not equals or not all(keys):
        raise UserError(f"--set: expected key.path=value, found {text!r}")
    inner = table
    for depth, key in enumerate(keys[:-1]):
        value = inner.setdefault(key, {})
        if not isinstance(value, dict):
            raise UserError(f"--set {text}: {'.'.join(keys[: depth + 1])} is {value!r} in the plan, no table")
        inner = value
    if raw.strip() == "none":  # TOML has no null: this takes a key back to its default
        inner.pop(keys[-1], None)
    else:
        inner[keys[-1]] = _value(raw)


def _value(text: str) -> Any:
    """A value as TOML reads it; what TOML refuses is a string."""
    try:
        read = tomllib.loads(f"v = {text}")
    except (ValueError, RecursionError):
        return text
    return read["v"] if len(read) == 1 else text


def make_plan(table: Mapping[str, Any], *, where: str = "the plan") -> Plan:
    """A validated plan, in its backend's form.

    Raises:
        UserError: An unknown backend, an unknown key (the nearest known one is named), a bad value.
    """
    name = table.get("backend", Plan.model_fields["backend"].default)
    if not isinstance(name, str):
        raise UserError(f"{where}: backend: expected a name, found {name!r}")
    model = getattr(plugins.resolve("backends", name), "plan_model", None)
    if model is None:
        raise UserError(f"{where}: backend {name!r} can't train: it has no plan_model")
    try:
        plan: Plan = model.model_validate(dict(table))
    except ValidationError as error:
        raise UserError(f"{where}: {describe_faults(error, model)}") from None
    return plan


def read_plan(path: Path, sets: Iterable[str] = ()) -> Plan:
    """Reads and validates a plan's file. Raises as `read_table` and `make_plan`."""
    return make_plan(read_table(path, sets), where=str(path))


def tasks_of(plan: Plan) -> tuple[list[str], list[str]]:
    """The ids that are trained on, and those of the evaluation.

    Raises:
        UserError: A pattern matches nothing, nothing is left, or the evaluation is not held out.
    """
    own = plan.tasks
    train = _expand(own.include, own.file, own.split, "tasks")
    out = set(registry.expand(own.exclude)) if own.exclude else set()
    train = [task for task in train if task not in out]
    if not train:
        raise UserError("tasks.exclude leaves no task to train on")
    when = plan.evaluation
    if when is None:
        return train, []
    patterns = when.include or (() if when.file is not None else own.include)
    evaluated = _expand(patterns, when.file, when.split or None, "evaluation")
    both = sorted(set(train) & set(evaluated))
    if both and when.held_out:
        raise UserError(
            f"{len(both)} of the evaluation's tasks are trained on (the first: {both[0]}); give other tasks or a "
            "split, or set evaluation.held_out = false for an overfit run"
        )
    return train, evaluated


def _expand(patterns: Sequence[str], file: Path | None, split: str | None, where: str) -> list[str]:
    ids = registry.expand(patterns, split=split) if patterns else []
    if file is not None:
        listed = _listed(file)
        known = registry.expand(listed)
        ids = list(dict.fromkeys([*ids, *known]))
    if not ids:
        raise UserError(f"[{where}] names no task")
    return ids


def _listed(file: Path) -> list[str]:
    """The ids of a task list. Lines that begin with `#` are notes, and what follows an id is about it."""
    ids = [words[0] for words in _lines(file)]
    if not ids:
        raise UserError(f"the task list {file} holds no task")
    return ids


def listed_turns(file: Path) -> dict[str, float]:
    """Mean turns by id, of a task list whose lines say `turns=<number>` behind the id."""
    found: dict[str, float] = {}
    for words in _lines(file):
        for word in words[1:]:
            name, _, value = word.partition("=")
            if name == "turns":
                try:
                    found[words[0]] = float(value)
                except ValueError:
                    raise UserError(f"{file}: {words[0]}: turns={value!r} is no number") from None
    return found


def _lines(file: Path) -> list[list[str]]:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"the task list {file} can't be read: {error}") from error
    return [line.split() for line in lines if line.strip() and not line.lstrip().startswith("#")]
