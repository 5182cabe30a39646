"""Moshi in process, through the real package, with a tiny model whose weights are random."""

import json
import os
import random

import numpy as np
import pytest

os.environ.setdefault("NO_TORCH_COMPILE", "1")
pytest.importorskip("moshi")

from talk import CLIPS, case

from workbench.agents.moshi import MoshiLocal
from workbench.errors import InputError
from workbench.runners.episode import run_episode
from workbench.runners.guard import CLOCKS

BINS, DIM = 64, 32


def mimi_config() -> dict:
    seanet = {
        "channels": 1, "dimension": DIM, "causal": True, "n_filters": 4, "n_residual_layers": 1,
        "activation": "ELU", "compress": 2, "dilation_base": 2, "disable_norm_outer_blocks": 0, "kernel_size": 7,
        "residual_kernel_size": 3, "last_kernel_size": 3, "norm": "none", "pad_mode": "constant",
        "ratios": [8, 6, 5, 4], "true_skip": True,
    }  # fmt: skip
    transformer = {
        "d_model": DIM, "num_heads": 2, "num_layers": 1, "causal": True, "layer_scale": 0.01, "context": 50,
        "conv_layout": True, "max_period": 10000, "gating": "none", "norm": "layer_norm",
        "positional_embedding": "rope", "dim_feedforward": 64, "input_dimension": DIM, "output_dimensions": [DIM],
    }  # fmt: skip
    quantizer = {"dimension": 16, "n_q": 4, "bins": BINS, "input_dimension": DIM, "output_dimension": DIM}
    return {
        "sample_rate": 24_000, "channels": 1, "frame_rate": 12.5,
        "seanet": seanet, "transformer": transformer, "quantizer": quantizer,
    }  # fmt: skip


def language_config(text_card: int) -> dict:
    return {
        "dim": DIM, "text_card": text_card, "existing_text_padding_id": 3, "n_q": 8, "dep_q": 4, "card": BINS,
        "num_heads": 2, "num_layers": 1, "hidden_scale": 4.125, "causal": True, "layer_scale": None, "context": 50,
        "max_period": 10000, "gating": "silu", "norm": "rms_norm_f32", "positional_embedding": "rope",
        "depformer_dim": DIM, "depformer_dim_feedforward": 64, "depformer_num_heads": 2, "depformer_num_layers": 1,
        "depformer_layer_scale": None, "depformer_multi_linear": True, "depformer_context": 4,
        "depformer_max_period": 10000, "depformer_gating": "silu", "depformer_pos_emb": "none",
        "depformer_weights_per_step": True, "delays": [0, 0, 1, 1, 1, 0, 1, 1, 1],
    }  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A checkpoint as it is published: config.json, two weight files and a tokenizer."""
    import sentencepiece
    import torch
    from moshi.models import loaders
    from safetensors.torch import save_model

    at = tmp_path_factory.mktemp("tiny")
    rng = random.Random(0)
    words = "the cat sat on a mat and looked at every bird in that old garden by the river bank".split()
    (at / "words.txt").write_text("\n".join(" ".join(rng.choices(words, k=8)) for _ in range(200)))
    sentencepiece.SentencePieceTrainer.train(
        input=str(at / "words.txt"), model_prefix=str(at / "text"), vocab_size=40, hard_vocab_limit=False,
        pad_id=3, minloglevel=2,
    )  # fmt: skip
    card = sentencepiece.SentencePieceProcessor(model_file=str(at / "text.model")).vocab_size()
    (at / "mimi.json").write_text(json.dumps(mimi_config()))
    names = {
        "moshi_name": "moshi.safetensors", "mimi_name": "mimi.safetensors", "tokenizer_name": "text.model",
        "mimi_config_name": "mimi.json", "model_type": "moshi", "model_id": {"sig": "tiny"},
    }  # fmt: skip
    (at / "config.json").write_text(json.dumps(language_config(card) | names))
    torch.manual_seed(0)
    mimi = loaders.get_mimi(None, mimi_config(), num_codebooks=4)
    # Without a spread of codes everything would decode to the same sound.
    for name, buffer in mimi.named_buffers():
        if "embedding_sum" in name:
            buffer.copy_(torch.randn_like(buffer))
        if "cluster_usage" in name:
            buffer.fill_(1.0)
    save_model(mimi, str(at / "mimi.safetensors"))
    save_model(loaders.get_moshi_lm(None, language_config(card), dtype=torch.float32), str(at / "moshi.safetensors"))
    return at


@pytest.fixture(autouse=True)
def one_thread():
    """Threads only get in each other's way in so small a model."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


async def one(folder, a_case=None, **options):
    def make():
        return MoshiLocal(folder=str(folder), device="cpu", dtype="float32", **options)

    return await run_episode(a_case or case(prompt=""), CLIPS, make, CLOCKS["virtual"])


async def test_frame_for_frame_on_a_virtual_clock(folder):
    result = await one(folder)
    record = result.record
    assert record.status == "complete", record.error
    assert record.clock == "virtual"
    assert record.placement == "sample_clock"
    assert record.agent.reported["sig"] == "tiny"
    frames = record.deliveries
    assert {d.samples for d in frames} == {1920}
    # Each frame of 80 ms is answered when its last sample has been sent, from the first on.
    assert [d.t_s for d in frames] == pytest.approx([0.08 * (n + 1) for n in range(len(frames))])
    assert len(frames) == record.sends.frames // 4
    assert np.abs(result.stereo[:, 1]).max() > 0


async def test_the_same_case_gives_the_same_recording_and_another_seed_another(folder):
    first, again, other = [await one(folder, seed=seed) for seed in (0, 0, 1)]
    assert np.array_equal(first.stereo, again.stereo)
    assert first.record.text == again.record.text
    assert not np.array_equal(first.stereo[:, 1], other.stereo[:, 1])


async def test_no_state_survives_a_case(folder):
    await one(folder, case("other", prompt="", then_s=0.5))
    fresh, later = await one(folder), await one(folder)
    assert np.array_equal(fresh.stereo, later.stereo)


async def test_a_system_prompt_is_said_not_to_be_sent(folder):
    result = await one(folder, case(prompt="You are a clerk."))
    assert any(event.kind == "system_prompt_not_sent" for event in result.record.events)


async def test_a_folder_without_its_files_is_refused(tmp_path):
    (tmp_path / "config.json").write_text('{"moshi_name": "a.safetensors"}')
    agent = MoshiLocal(folder=str(tmp_path))
    with pytest.raises(InputError, match=r"lacks the file 'a\.safetensors'"):
        await agent.open(type("S", (), {"system_prompt": ""}), print)
    await agent.close()
