"""Do tokenizer, template and model agree: ids that the model knows, stops that it can sample, an engine's rendering?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx

from envkit.backends.guards.verdict import Status, Verdict
from envkit.deadline import Deadline
from envkit.failure import EnvkitError
from envkit.messages import Message
from envkit.tokens.render import Renderer, load_tokenizer, shared_renderer, template_messages

__all__ = ["FIXED", "prompts", "tokens"]

GUARD = "tokens"
#: What is rendered for a look: more than one turn, and what tokenizers like to disagree about.
FIXED = (
    Message(role="system", content="You are a careful assistant.\nAnswer in one line."),
    Message(role="user", content="Sum  the column »Beträge« (€ 1.234,50; 7 % VAT) and name the largest — 日本語 too."),
)
_WAYS = ("Write one sentence about invoices.", "List three numbers.", "What is in the folder?", "Explain a contract.")


def prompts(renderer: Renderer, count: int) -> list[list[int]]:
    """So many prompts of a chat, as ids, all different."""
    return [
        renderer.render([FIXED[0], Message(role="user", content=f"{_WAYS[n % len(_WAYS)]} ({n})")], None).ids
        for n in range(count)
    ]


async def tokens(
    *,
    tokenizer: str,
    renderer: str,
    options: dict[str, Any],
    model: str | None,
    urls: Sequence[str],
    deadline: Deadline,
) -> Verdict:
    """Checks what a plan samples with.

    Args:
        tokenizer: Folder or cached name; `renderer` and `options` as the policy has them.
        model: The model's folder, for its vocabulary; None where nothing is known of it.
        urls: Engines; those that render conversations themselves (vLLM's `/tokenize`) are asked to.
    """
    try:
        rendering = shared_renderer(tokenizer, renderer, options)
        ids = rendering.render(list(FIXED), None).ids
    except EnvkitError as error:
        return Verdict(GUARD, Status.FAILED, f"the conversation can't be rendered: {error}")
    vocabulary = _vocabulary(model)
    highest = max([*ids, *rendering.stop_ids])
    figures: dict[str, Any] = {"prompt_tokens": len(ids), "vocabulary": vocabulary, "highest_id": highest}
    known = len(load_tokenizer(tokenizer))  # type: ignore[arg-type]
    if vocabulary is not None and max(highest, known - 1) >= vocabulary:
        line = f"the tokenizer {tokenizer} has ids up to {max(highest, known - 1)}, the model knows {vocabulary}"
        return Verdict(
            GUARD, Status.FAILED, f"{line}: it is another model's, or its embeddings were not resized", figures
        )
    if not rendering.stop_ids:
        return Verdict(GUARD, Status.FAILED, f"renderer {rendering.name!r} knows no token that ends a turn", figures)
    asked, differing = 0, []
    for url in urls:
        theirs = await _engine_ids(url, deadline)
        if theirs is not None:
            asked += 1
            if theirs != ids:
                at = next((n for n, (a, b) in enumerate(zip(ids, theirs, strict=False)) if a != b), "the end")
                differing.append(f"{url} renders {len(theirs)} ids where we render {len(ids)}, differing from {at} on")
    figures["engines_asked"] = asked
    if differing:
        # Nothing is sampled through the engine's own template, so this alone breaks nothing.
        return Verdict(GUARD, Status.WARNING, f"{differing[0]}; ours are used ({rendering.name})", figures)
    line = f"a conversation of {len(ids)} ids fits the model's vocabulary of {vocabulary or 'unknown size'}"
    line += f"; {asked} engines render it to the same ids" if asked else ""
    return Verdict(GUARD, Status.OK, line, figures)


def _vocabulary(model: str | None) -> int | None:
    """Rows of the model's embeddings, of its `config.json`."""
    if model is None:
        return None
    try:
        config = json.loads((Path(model) / "config.json").read_bytes())
        found = config.get("vocab_size") or config["text_config"]["vocab_size"]
    except (OSError, ValueError, KeyError, AttributeError):
        return None
    return int(found)


async def _engine_ids(url: str, deadline: Deadline) -> list[int] | None:
    """What an engine makes of the conversation; None where it renders none."""
    body = {"messages": template_messages(FIXED), "add_generation_prompt": True}
    try:
        async with httpx.AsyncClient(trust_env=False, timeout=min(30.0, deadline.remaining_s)) as http:
            answer = await http.post(f"{url}/tokenize", json=body)
            if answer.status_code != 200:
                return None
            return [int(i) for i in answer.json()["tokens"]]
    except (httpx.HTTPError, ValueError, KeyError, TypeError):
        return None
