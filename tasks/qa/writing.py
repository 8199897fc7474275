"""A question as a Harbor task directory: instruction, check of the last line, the right answer as the solution.

The model must end with a line `Answer: ...`; only the last such line counts, so that naming every choice earns nothing.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from envkit.tasks.qa.rows import Question, shuffled

__all__ = ["FORM", "write_question"]

#: Changes whenever the same question is written differently.
FORM = "2"
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

_SOLVE = """\
#!/bin/bash
# States the answer that the data gives, for the self-test.
set -euo pipefail
mkdir -p /logs/agent
cp "$(dirname "$0")/answer.txt" /logs/agent/answer.txt
"""

#: What introduces an answer, and what may stand around it (Markdown, LaTeX, brackets).
_ANSWER = r"\banswer(?:\s+is)?\s*[:=]"
_BEFORE, _AFTER = r"[\s*_`\"'(\[{$\\]*", r"[\s*_`\"')\]}$\\.]*"


def write_question(question: Question, target: Path, *, seed: int = 0, judge: bool = False) -> None:
    """Writes the task into the empty folder `target`.

    Args:
        seed: In which order choices stand.
        judge: Let a model judge free answers in words; choices and numbers are checked all the same way.
    """
    from envkit.verifiers.portable import write_tests

    instruction, checks, answer = _parts(question, seed, judge)
    _text(target / "task.toml", _task_toml(question))
    _text(target / "instruction.md", instruction)
    _text(target / "tests/verifier.toml", f'schema_version = "1"\n\n[[check]]\nid = "answer"\n{checks}')
    write_tests(target / "tests", None)
    _text(target / "solution/answer.txt", f"Answer: {answer}\n")
    _text(target / "solution/solve.sh", _SOLVE)
    (target / "solution/solve.sh").chmod(0o755)


def _parts(question: Question, seed: int, judge: bool) -> tuple[str, str, str]:
    """The instruction, the keys of the check, and the right answer as it is to be stated."""
    if question.kind == "choice":
        choices, letter = shuffled(question, seed)
        listed = "".join(f"\n{_LETTERS[n]}) {choice}" for n, choice in enumerate(choices))
        told = "the letter of the right choice"
        words = r"\s+".join(re.escape(word) for word in question.answer.split())
        return _instruction(question.question + "\n" + listed, told), _regex(rf"{letter}(?:[).:\s-]+{words})?"), letter
    if question.kind == "numeric":
        value = float(question.answer.replace(",", "").replace("−", "-"))
        rules = [f"value = {value!r}", 'decimal = "."', f"label = {_toml(_ANSWER)}", "near = 40", "max_candidates = 1"]
        rules += [f"rel_tol = {question.tolerance!r}"] if question.tolerance else []
        last = _toml(_last(r"[^\n]*"))
        check = f'kind = "answer"\nregex = [{last}]\nnumber = {{ {", ".join(rules)} }}\n'
        return _instruction(question.question, "the number alone"), check, question.answer
    told = "your answer, as short as it can be"
    if judge or question.kind == "judge":
        criterion = f"The final answer to the question is, or means the same as: {question.answer}"
        check = f'kind = "judge"\ncriterion = {_toml(criterion)}\nfiles = "none"\n'
    else:
        words = r"\s+".join(re.escape(word) for word in question.answer.split())
        check = _regex(words)
    return _instruction(question.question, told), check, question.answer


def _instruction(text: str, told: str) -> str:
    return f"{text.strip()}\n\nEnd with a line of the form `Answer: X`, where X is {told}.\n"


def _regex(answer: str) -> str:
    return f'kind = "answer"\nregex = [{_toml(_last(_BEFORE + answer + _AFTER + "$"))}]\n'


def _last(rest: str) -> str:
    """Matches where the last `Answer:` is followed by `rest` on its line."""
    return rf"(?im){_ANSWER}{rest}(?![\s\S]*{_ANSWER})"


def _task_toml(question: Question) -> str:
    envkit: list[str] = []
    if question.group is not None:
        # only a name: questions have no files
        envkit.append(f"world = {_toml(re.sub(r'[^A-Za-z0-9._-]+', '-', question.group).strip('-.') or 'group')}")
    if question.domain is not None:
        envkit.append(f"domain = {_toml(question.domain)}")
    if question.split is not None:
        envkit.append(f"split = {_toml(question.split)}")
    envkit.append(f'tags = ["qa", "{question.kind}"]')
    return (
        'schema_version = "1.4"\n\n[metadata.envkit]\n' + "\n".join(envkit) + "\n\n[agent]\ntimeout_sec = 1800.0\n\n"
        '[verifier]\ntimeout_sec = 300.0\n\n[environment]\nnetwork_mode = "no-network"\n'
    )


def _toml(text: str) -> str:
    """A TOML string on one line. TOML has no surrogates and no DEL."""
    clean = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    return json.dumps(clean, ensure_ascii=False).replace("\x7f", "\\u007f")


def _text(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.encode("utf-8", "surrogatepass").decode("utf-8", "replace"), encoding="utf-8")
