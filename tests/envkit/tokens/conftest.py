"""A real tokenizer, trained here in a second, that has the control tokens of every template family under test."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from envkit.messages import ToolSpec

#: (text, special): as the families' own tokenizers have them; the tags that a model writes are not "special".
CONTROL = [
    *[(t, True) for t in ("<|endoftext|>", "<|im_start|>", "<|im_end|>")],
    *[(t, True) for t in ("[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>")],
    *[(t, True) for t in ("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|eom_id|>")],
    *[(t, True) for t in ("<|end_of_text|>", "<|python_tag|>", "]~!b[", "]~b]", "[e~[")],
    *[(t, True) for t in ("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>")],
    *[(t, True) for t in ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>")],
    *[(t, True) for t in ("<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>")],
    *[(t, True) for t in ("<｜tool▁sep｜>", "<｜tool▁outputs▁begin｜>", "<｜tool▁outputs▁end｜>")],
    *[(t, True) for t in ("<｜tool▁output▁begin｜>", "<｜tool▁output▁end｜>")],
    *[(t, True) for t in ("<|im_user|>", "<|im_assistant|>", "<|im_system|>", "<|im_middle|>")],
    *[(t, True) for t in ("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "<|tool_call_begin|>")],
    *[(t, True) for t in ("<|tool_call_end|>", "<|tool_call_argument_begin|>")],
    *[(t, True) for t in ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")],
    *[(t, False) for t in ("<think>", "</think>", "<tool_call>", "</tool_call>")],
    *[(t, False) for t in ("<tool_response>", "</tool_response>")],
    *[(t, False) for t in ("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>")],
    *[(t, False) for t in ("<minimax:tool_call>", "</minimax:tool_call>")],
]

CHATML = (
    "{% if tools %}<|im_start|>system\n# Tools\n{% for t in tools %}{{ t | tojson }}\n{% endfor %}"
    "Call with <tool_call>{json}</tool_call><|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "{% for c in m.tool_calls %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
#: Role markers end the previous turn, as in GLM.
ROLES = (
    "[gMASK]<sop>{% for m in messages %}"
    "{% if m.role == 'tool' %}<|observation|>\n{{ m.content }}"
    "{% else %}<|{{ m.role }}|>\n{{ m.content }}"
    "{% for c in m.tool_calls %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
HEADERS = (
    "<|begin_of_text|>{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n{{ m.content | trim }}"
    "{% for c in m.tool_calls %}"
    '{"name": "{{ c.function.name }}", "parameters": {{ c.function.arguments | tojson }}}'
    "{% endfor %}<|eot_id|>{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
#: Writes arguments as Python does, in another order, and leaves empty ones out: what a model wrote never survives it.
PYTHONIC = CHATML.replace(
    "{{ c.function | tojson }}",
    "{{ c.function.name }}("
    "{% for k, v in c.function.arguments | dictsort(reverse=true) %}{{ k }}={{ v }},{% endfor %})",
)
#: Drops the reasoning of all turns but the last, as reasoning models' templates do.
FORGETFUL = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.reasoning_content and loop.last %}<think>{{ m.reasoning_content }}</think>{% endif %}"
    "{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TEMPLATES = {"chatml": CHATML, "roles": ROLES, "headers": HEADERS, "pythonic": PYTHONIC, "forgetful": FORGETFUL}
STOPS = {
    "chatml": ["<|im_end|>"],
    "roles": ["<|user|>", "<|observation|>"],
    "headers": ["<|eot_id|>"],
    "pythonic": ["<|im_end|>"],
    "forgetful": ["<|im_end|>"],
}
#: The families of the `renderers` package under test; each with another grammar.
FAMILIES = ("qwen3", "qwen3.5", "glm-4.5", "glm-5", "deepseek-v3", "minimax-m2", "kimi-k2", "llama-3", "prime-qwen3")

TOOLS = (
    ToolSpec(
        name="read",
        description="Reads a file",
        parameters={
            "type": "object",
            "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}, "all": {"type": "boolean"}},
        },
    ),
    ToolSpec(name="list", description="Lists files", parameters={"type": "object", "properties": {}}),
)


def train(vocabulary: int = 3000) -> Any:
    """A byte-level BPE over some of the standard library's sources, with the control tokens."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

    library = Path(argparse.__file__).parent
    names = ("argparse", "ast", "csv", "datetime", "difflib", "inspect", "pathlib", "shutil", "tarfile", "textwrap")
    texts = [(library / f"{name}.py").read_text() for name in names if (library / f"{name}.py").exists()]
    texts += [json.dumps(json.loads('{"name": "read", "arguments": {"path": "a.txt"}}')) + "\n\n  \t'\u20ac\u00e4" * 20]
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    inner.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=vocabulary, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
        ),
    )
    inner.add_tokens([AddedToken(t, special=False, normalized=False) for t, special in CONTROL if not special])
    inner.add_special_tokens([AddedToken(t, special=True, normalized=False) for t, special in CONTROL if special])
    return inner


def wrap(inner: Any, eos: str = "<|endoftext|>", template: str | None = None) -> Any:
    """The same vocabulary as a `PreTrainedTokenizerFast` of its own."""
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(
        tokenizer_object=inner, eos_token=eos, pad_token="<|endoftext|>", chat_template=template
    )


@pytest.fixture(scope="session")
def vocabulary() -> Any:
    return train()


@pytest.fixture(scope="session")
def tokenizer(vocabulary: Any) -> Any:
    return wrap(vocabulary)


@pytest.fixture(scope="session")
def renderers_by_name(vocabulary: Any) -> dict[str, Any]:
    """Every renderer under test: families of the package, and our own bridge over several chat templates."""
    from envkit.tokens.render import load_renderer

    out: dict[str, Any] = {}
    eos = {"deepseek-v3": "<｜end▁of▁sentence｜>", "minimax-m2": "[e~["}
    for name in FAMILIES:
        out[name] = load_renderer(wrap(vocabulary, eos.get(name, "<|endoftext|>")), name)
    for name, template in TEMPLATES.items():
        own = wrap(vocabulary, template=template)
        out["template:" + name] = load_renderer(own, "template", {"stop_tokens": STOPS[name]})
    return out
