"""The check of kind `judge`: a criterion in words, which a model is asked about.

```toml
[[check]]
id = "tone"
kind = "judge"
criterion = "The memo states the revenue shortfall and names its two causes."
files = ["/filesystem/reports/*.docx"]
```
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from envkit.verifiers.values import BaseCheck, Spec, TreePattern

__all__ = ["Example", "JudgeCheck"]


class Example(Spec):
    """A work of which it is known whether it meets the criterion, for the self-test (`envkit check`).

    Attributes:
        passes: Whether a sound judge passes it.
        answer: The final answer.
        files: A folder of `tests/` (`examples/right`) with `filesystem/` or `.apps_data/` in it, laid over the initial
            state.
    """

    passes: bool
    answer: str | None = None
    files: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_][A-Za-z0-9_./-]{0,200}$")

    @model_validator(mode="after")
    def _holds_something(self) -> Example:
        if self.answer is None and self.files is None:
            raise ValueError("an example needs an answer, files, or both")
        if self.files is not None and ".." in self.files.split("/"):
            raise ValueError(f"{self.files!r} must lie in tests/")
        return self


class JudgeCheck(BaseCheck):
    """One criterion, judged by the model that the operator configures (`ENVKIT_JUDGE`); tasks choose no model.

    Attributes:
        criterion: What must be true, in words. One criterion, one verdict.
        explanation: For the judge: how to read the criterion, what counts and what does not.
        answer: Show the final answer.
        files: Which files of the final state are shown: `changed` (all that the agent created, modified or moved;
            those that the criterion names come first), `none`, or patterns like `["/filesystem/reports/*.docx"]`.
            Where patterns match nothing and the answer isn't shown either, the check fails without asking anybody.
        changed_only: With patterns: of the files that match, only those that the agent created, modified or moved.
        references: Patterns of files of the *initial* state that are shown as reference.
        examples: Works that the judge must pass or fail, `[{answer = "...", passes = true}, ...]` (`Example`); tried by
            `envkit check`, shown to nobody in a trial.
        scale: `pass_fail`, or `score`: a number from 0 to 1; then `pass_at` is the least that counts as passed.
    """

    outside: ClassVar[str] = "a judge"

    kind: Literal["judge"]
    criterion: str = Field(min_length=1, max_length=20_000)
    explanation: str = Field(default="", max_length=20_000)
    answer: bool = True
    files: Literal["changed", "none"] | tuple[TreePattern, ...] = "changed"
    changed_only: bool = False
    references: tuple[TreePattern, ...] = ()
    scale: Literal["pass_fail", "score"] = "pass_fail"
    pass_at: float = Field(default=1.0, gt=0, le=1)
    examples: tuple[Example, ...] = ()

    @model_validator(mode="after")
    def _sees_something(self) -> JudgeCheck:
        if not self.answer and (self.files == "none" or self.files == ()):
            raise ValueError("the judge must see something: the answer, files, or both")
        if self.changed_only and isinstance(self.files, str):
            raise ValueError(f"changed_only needs patterns in files, found {self.files!r}")
        if self.scale == "pass_fail" and "pass_at" in self.model_fields_set:
            raise ValueError("pass_at needs scale = 'score'")
        return self
