# Tests: policies/forward.py, policies/decode.py
"""Rows that are laid out together are read as each alone, or the library lays them out otherwise."""

import logging
from types import SimpleNamespace

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, MistralConfig, MistralForCausalLM, Qwen3ForCausalLM

from countdown_selfplay.errors import ConfigError
from countdown_selfplay.policies import forward
from countdown_selfplay.policies.decode import looped, without_idle_rows
from countdown_selfplay.policies.forward import scored_at
from tests.trainer.test_decode import asked, tiny
from tests.zoo.families import FEW, built, folder
from tests.zoo.play import wrong


@pytest.mark.slow
@pytest.mark.parametrize("name", FEW)
def test_a_model_is_sampled_and_scored_as_transformers_does_alone(name, tmp_path):
    assert wrong(folder(name, tmp_path)) == ""


@pytest.mark.parametrize(("longest", "slower"), [(24, False), (25, True)])
def test_a_window_matters_to_rows_that_are_longer(longest, slower):
    """Rows of up to 24 tokens never leave a window of 24."""
    torch.manual_seed(0)
    sizes = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2)
    config = MistralConfig(vocab_size=97, num_key_value_heads=1, sliding_window=24, initializer_range=0.3, **sizes)
    assert bool(forward.misread(MistralForCausalLM(config), looped, longest)) == slower


def test_a_count_of_layers_or_experts_is_no_span():
    config = MistralConfig(vocab_size=97, sliding_window=24, max_position_embeddings=512)
    config.max_window_layers, config.num_local_experts, config.attention_chunk_size = 28, 8, 40
    assert sorted(forward._spans_of(SimpleNamespace(config=config))) == [24, 40, 512]


def left_padded(lengths):
    ids = torch.arange(3, 3 + max(lengths)).repeat(len(lengths), 1)
    mask = torch.stack([(torch.arange(max(lengths)) >= max(lengths) - length).long() for length in lengths])
    return ids * mask, mask


def test_learned_positions_are_those_of_each_row_in_the_loss():
    """The scores of GPT-2's left-padded rows are those of the rows without padding, which count from 0."""
    torch.manual_seed(0)
    quiet = dict(resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
    config = GPT2Config(vocab_size=97, n_embd=32, n_layer=2, n_head=2, initializer_range=0.3, **quiet)
    model, (ids, mask) = GPT2LMHeadModel(config), left_padded([6, 9])
    with torch.no_grad():
        true = [
            model(input_ids=row[None, seen.bool()]).logits[0].log_softmax(-1)
            for row, seen in zip(ids, mask, strict=True)
        ]
        scored_at(model, 1.0)
        labels = ids.clone()
        labels[:, :6] = -100
        found = model(input_ids=ids, attention_mask=mask, labels=labels, fused_lm_head=True).log_probs[:, -3:]
    for logps, row, whole in zip(found, ids, true, strict=True):
        torch.testing.assert_close(logps, whole[-4:-1].gather(1, row[-3:, None])[:, 0], atol=1e-5, rtol=1e-5)


class ByColumns(Qwen3ForCausalLM):
    """A model that counts columns, whatever padding it has, and takes no position ids."""

    def __init__(self, config):
        super().__init__(config)
        self.model.register_forward_pre_hook(self.counted, with_kwargs=True)

    def counted(self, module, args, kwargs):
        return args, {**kwargs, "position_ids": None, "attention_mask": None}


def test_rows_that_cannot_be_padded_go_apart_in_sampling_and_in_the_loss(caplog):
    torch.manual_seed(0)
    model, (ids, mask) = ByColumns(tiny().config).double().eval(), left_padded([6, 9, 6])
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(3)
    given = asked(ids, mask, do_sample=False)
    rows = [row[None, seen.bool()] for row, seen in zip(ids, mask, strict=True)]
    alone = [model.generate(**asked(row, torch.ones_like(row), do_sample=False))[0, row.size(1) :] for row in rows]
    with caplog.at_level(logging.WARNING):
        found = model.generate(**without_idle_rows(model, given))[:, ids.size(1) :]
    assert "separate passes" in caplog.text
    for answer, expected in zip(found, alone, strict=True):
        assert answer[: len(expected)].tolist() == expected.tolist() and not answer[len(expected) :].any()
    with torch.no_grad():
        true = [model(input_ids=row).logits[0].log_softmax(-1) for row in rows]
        scored_at(model, 1.0)
        labels = ids.clone()
        labels[:, :6] = -100
        scores = model(input_ids=ids, attention_mask=mask, labels=labels, fused_lm_head=True).log_probs[:, -3:]
    for logps, row, whole in zip(scores, ids, true, strict=True):
        expected = whole[-4:-1].gather(1, row[-3:, None])[:, 0].float()
        torch.testing.assert_close(logps.float(), expected, atol=1e-4, rtol=1e-4)


def test_a_measurement_leaves_the_model_and_the_generators_as_they_were(monkeypatch):
    monkeypatch.setattr(forward, "_found", {})
    model = tiny(torch.float32).train()
    model.lm_head.eval()
    modes, before, kept = [part.training for part in model.modules()], torch.get_rng_state(), model.generation_config
    for layout in (looped, forward.padded, forward.placed):
        assert forward.misread(model, layout) == ""
    assert [part.training for part in model.modules()] == modes and model.generation_config is kept
    assert torch.equal(torch.get_rng_state(), before) and all(p.grad is None for p in model.parameters())


def test_a_head_that_is_more_than_one_product_is_refused_in_a_sentence():
    with pytest.raises(ConfigError, match="BertLMHeadModel makes its scores by more than its output embeddings"):
        scored_at(built("bert"), 1.0)
