"""What the clerk sees: every demonstration played in the real environment, and the token streams to imitate.

The stream of a demonstration is what the token policy would have recorded, had it sampled those words: the prompt as
the renderer renders it, the assistant's ids, the bridge to the tool's result, and so on; only the assistant's ids are
in the mask. What the tools answer is recorded once for each first look, for it does not depend on the facts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from envkit import make_async
from envkit.messages import AssistantMessage, Observation, ToolCall
from envkit.tokens.conversation import Conversation
from envkit.tokens.export import Sample, export
from envkit.tokens.render import Renderer
from envkit.tokens.trace import Trace
from examples.tiny.demonstrations import DEMONSTRATIONS, OVERFIT_32
from examples.tiny.takes import Call, Look, Take, first_call

__all__ = ["LIMITS", "Seen", "completion", "record", "stream"]

#: As in the run that follows: the prompt says how many turns there are.
LIMITS = {"max_turns": 4}

#: (task, first call as JSON, its facts open) -> what the policy is shown, turn by turn.
Seen = dict[tuple[str, str], tuple[Observation, Observation]]


async def record(tasks: Sequence[str] = tuple(DEMONSTRATIONS)) -> Seen:
    """Plays each first look of each task once, careless facts included: 1 to 2 seconds each."""
    seen: Seen = {}
    for task in tasks:
        env = make_async(f"office/{task}", harness="opencode", harness_options={"prompt": "compact"}, limits=LIMITS)
        try:
            for look in OVERFIT_32[task].looks:
                first, _ = await env.reset(seed=0)
                name, arguments = first_call(OVERFIT_32[task], look)
                call = ToolCall(id="call_0", name=name, arguments=arguments)
                second, *_ = await env.step(AssistantMessage(tool_calls=(call,)))
                if second is None:
                    raise RuntimeError(f"expected {task} to go on after the clerk's first call, but its episode ended")
                seen[task, _key(look)] = (first, second)
        finally:
            await env.close()
    return seen


def completion(renderer: Renderer, text: str, calls: Sequence[Call]) -> list[int]:
    """The ids of an assistant turn, its end included, as Qwen3 writes it."""
    said = [text] if text else []
    for name, arguments in calls:
        said.append(f'<tool_call>\n{{"name": {json.dumps(name)}, "arguments": {json.dumps(arguments)}}}\n</tool_call>')
    return renderer.encode("\n".join(said) + "<|im_end|>")


def stream(renderer: Renderer, seen: Seen, task: str, shown: Take) -> Sample:
    """One demonstration as a row of training data."""
    talk = Conversation(renderer, Trace({}))
    turns = [completion(renderer, "", [shown.call]), completion(renderer, shown.answer, [])]
    for observation, ids in zip(seen[task, _key(shown.look)], turns, strict=True):
        turn = talk.observe(observation)
        talk.record(turn, ids, np.zeros(len(ids), np.float32), np.zeros(len(ids), np.int32), finish="stop")
    (sample,) = export(talk.trace).samples
    return sample


def _key(look: Look) -> str:
    return json.dumps(look.call)
