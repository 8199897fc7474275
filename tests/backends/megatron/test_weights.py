"""Weights come in from Hugging Face folders and go out again bit by bit, in any layout; what does not fit is said."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from envkit.backends.megatron import Layout
from envkit.backends.megatron.factory import build, initialize
from envkit.backends.megatron.files import write
from envkit.backends.megatron.shape import shape_of
from envkit.backends.megatron.weights import Folder, export, load
from envkit.failure import EnvkitError, UserError

pytestmark = [pytest.mark.megatron, pytest.mark.timeout(300)]

MODELS = ("untied", "tied", "experts", "raw_experts")


def tensors(folder: Path) -> dict[str, torch.Tensor]:
    source = Folder(folder)
    return {name: source.read(name) for name in source.names}


def same(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> None:
    assert ours.keys() == theirs.keys()
    wrong = [n for n in theirs if ours[n].dtype != theirs[n].dtype or not torch.equal(ours[n], theirs[n])]
    assert not wrong


@pytest.mark.parametrize("kind", MODELS)
def test_in_and_out_again_is_bit_exact(alone: None, folders: dict[str, Path], tmp_path: Path, kind: str) -> None:
    shape = shape_of(folders[kind])
    chunks = build(shape, Layout())
    load(chunks, shape, folders[kind])
    write(export(chunks, shape), tmp_path / "out", like=folders[kind], shard_bytes=20_000)
    same(tensors(tmp_path / "out"), tensors(folders[kind]))
    assert len(list((tmp_path / "out").glob("*.safetensors"))) > 2
    # other programs read it: the logits are those of before
    ids = torch.tensor([[1, 2, 3, 4]])
    before, after = (
        AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)(ids).logits
        for folder in (folders[kind], tmp_path / "out")
    )
    assert torch.equal(before, after)


def test_narrow_weights_come_out_as_they_went_in(alone: None, folders: dict[str, Path], tmp_path: Path) -> None:
    narrow = {name: t.bfloat16() for name, t in tensors(folders["experts"]).items()}
    shutil.copytree(folders["experts"], tmp_path / "narrow")
    save_file(narrow, tmp_path / "narrow" / "model.safetensors", metadata={"format": "pt"})
    shape = shape_of(tmp_path / "narrow")
    chunks = build(shape, Layout())  # held in float32
    load(chunks, shape, tmp_path / "narrow")
    write(export(chunks, shape), tmp_path / "out", like=tmp_path / "narrow", dtype=torch.bfloat16)
    same(tensors(tmp_path / "out"), narrow)
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config.get("dtype", config.get("torch_dtype")) == "bfloat16"


CUT = [
    ("untied", 2, {"tensor": 2}),
    ("tied", 2, {"tensor": 2, "sequence_parallel": False}),
    ("untied", 2, {"pipeline": 2}),
    ("tied", 2, {"pipeline": 2}),
    ("tied", 2, {"pipeline": 2, "virtual_stages": 2}),
    ("experts", 2, {"pipeline": 2, "virtual_stages": 2}),
    ("experts", 2, {"expert": 2}),
    ("experts", 2, {"tensor": 2}),
    ("experts", 2, {"tensor": 2, "expert": 2, "expert_tensor": 1}),
    ("tied", 2, {}),
]


@pytest.mark.parametrize(
    ("kind", "count", "layout"), CUT, ids=["-".join([k, *(f"{n}{v}" for n, v in lay.items())]) for k, _, lay in CUT]
)
def test_cut_over_ranks_it_is_bit_exact_too(
    ranks: Any, folders: dict[str, Path], tmp_path: Path, kind: str, count: int, layout: dict[str, Any]
) -> None:
    held = ranks(count, layout, "round_trip", folder=folders[kind], out=tmp_path / "out", shard_bytes=20_000)
    same(tensors(tmp_path / "out"), tensors(folders[kind]))
    assert not list(tmp_path.glob(".*"))
    whole = sum(t.numel() * 4 for t in tensors(folders[kind]).values())
    if layout:
        assert max(held) < 0.8 * whole  # no rank holds the whole model


@pytest.mark.parametrize("kind", ["untied", "experts"])
def test_heads_of_keys_may_be_fewer_than_ranks(ranks: Any, folders: dict[str, Path], tmp_path: Path, kind: str) -> None:
    whole = tensors(folders[kind])
    shutil.copytree(folders[kind], tmp_path / "one")
    config = json.loads((tmp_path / "one" / "config.json").read_text())
    config["num_key_value_heads"] = 1
    (tmp_path / "one" / "config.json").write_text(json.dumps(config))
    few = {n: t[:8].contiguous() if "k_proj" in n or "v_proj" in n else t for n, t in whole.items()}
    save_file(few, tmp_path / "one" / "model.safetensors", metadata={"format": "pt"})
    ranks(2, {"tensor": 2}, "round_trip", folder=tmp_path / "one", out=tmp_path / "out", shard_bytes=1 << 30)
    same(tensors(tmp_path / "out"), few)


def test_where_one_rank_can_not_write_all_say_so_and_nothing_stays(
    ranks: Any, folders: dict[str, Path], tmp_path: Path
) -> None:
    told = ranks(2, {"tensor": 1, "pipeline": 2}, "write_nowhere", folder=folders["untied"], out=tmp_path / "out")
    assert told[0] == told[1]
    assert told[0].startswith("disk_full: ")
    assert "rank 1 of 2: [Errno 28] No space left on device" in told[0]
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_exists_is_left_alone(alone: None, folders: dict[str, Path], tmp_path: Path) -> None:
    shape = shape_of(folders["tied"])
    chunks = build(shape, Layout())
    load(chunks, shape, folders["tied"])
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("x")
    with pytest.raises(EnvkitError, match="exists"):
        write(export(chunks, shape), tmp_path / "out", like=folders["tied"])
    assert [p.name for p in tmp_path.rglob("*")] == ["out", "mine"]


def broken(folder: Path, into: Path, how: str) -> Path:
    shutil.copytree(folder, into)
    file = into / "model.safetensors"
    found = load_file(file)
    if how == "missing":
        del found["model.layers.2.self_attn.k_norm.weight"]
    elif how == "left over":
        found["model.layers.0.self_attn.q_proj.bias"] = torch.zeros(32)
    elif how == "of another shape":
        found["model.layers.1.mlp.down_proj.weight"] = torch.zeros(32, 47)
    elif how == "cut off":
        file.write_bytes(file.read_bytes()[:-100])
        return into
    elif how == "gone":
        file.unlink()
        return into
    save_file(found, file)
    return into


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("missing", r"1 missing, such as model\.layers\.2\.self_attn\.k_norm"),
        ("left over", r"1 left over, such as model\.layers\.0\.self_attn\.q_proj\.bias"),
        ("of another shape", r"expected \[32, 48\] for decoder\.layers\.1\.mlp\.linear_fc2\.weight.*found \[32, 47\]"),
        ("cut off", "expected model.safetensors or"),
        ("gone", "expected model.safetensors or"),
    ],
)
def test_weights_that_do_not_fit_are_named(
    alone: None, folders: dict[str, Path], tmp_path: Path, how: str, said: str
) -> None:
    folder = broken(folders["untied"], tmp_path / "broken", how)
    shape = shape_of(folder)
    with pytest.raises(UserError, match=said):
        load(build(shape, Layout()), shape, folder)


def test_a_tied_model_may_carry_its_head_as_a_copy(alone: None, folders: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(folders["tied"], tmp_path / "copy")
    found = load_file(tmp_path / "copy" / "model.safetensors")
    found["lm_head.weight"] = found["model.embed_tokens.weight"].clone()
    save_file(found, tmp_path / "copy" / "model.safetensors")
    shape = shape_of(tmp_path / "copy")
    load(build(shape, Layout()), shape, tmp_path / "copy")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2"}, "did you mean 'Qwen3ForCausalLM'"),
        ({"attention_bias": True}, "attention_bias"),
        ({"hidden_act": "gelu"}, "hidden_act 'gelu'"),
        ({"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}}, "rope_type 'linear'"),
        ({"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 0}, "use_sliding_window"),
    ],
    ids=lambda v: next(iter(v)) if isinstance(v, dict) else "",
)
def test_models_that_would_be_computed_wrongly_are_refused(
    folders: dict[str, Path], tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    config = json.loads((folders["untied"] / "config.json").read_text()) | change
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match=said):
        shape_of(tmp_path)


def test_no_folder_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no Hugging Face model"):
        shape_of(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("kind", "layout", "said"),
    [
        ("untied", {"tensor": 3}, r"tensor \(3\) does not divide heads \(4\)"),
        ("untied", {"pipeline": 3}, r"pipeline x virtual_stages \(3\) does not divide layers \(4\)"),
        ("untied", {"expert": 2}, "has no experts"),
        ("experts", {"expert": 3}, r"expert \(3\) does not divide experts \(4\)"),
    ],
    ids=["tensor", "pipeline", "no-experts", "experts"],
)
def test_layouts_that_do_not_fit_are_refused(
    folders: dict[str, Path], kind: str, layout: dict[str, Any], said: str
) -> None:
    with pytest.raises(UserError, match=said):
        build(shape_of(folders[kind]), Layout(**layout))


def test_a_world_that_can_not_be_cut_is_refused_before_it_meets(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="multiple of 2 ranks"):
        initialize(Layout(tensor=2), rank=0, world=3, init_method=f"file://{tmp_path}/meeting", timeout_s=1)


@pytest.mark.parametrize(
    "layout", [{"virtual_stages": 2}, {"sequence_parallel": True}, {"tensor": 0}, {"tensors": 2}], ids=str
)
def test_layouts_that_make_no_sense_are_no_layouts(layout: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Layout(**layout)
