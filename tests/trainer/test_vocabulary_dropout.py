# Tests: training/vocabulary_dropout.py
"""A round's mask on the conjecturer's logits: seen by its samples, by its scores and by nothing else."""

import pytest
import torch

from countdown_selfplay.errors import ConfigError
from countdown_selfplay.training.vocabulary_dropout import MASKED

from .conftest import equal, make_trainer, on_sample, optimizer_state, rounds, weights

RATE = dict(conjecturer_vocabulary_dropout=0.4, seed=8)


def head_of(trainer, role="conjecturer"):
    return trainer.policies.module.policies[role].get_output_embeddings()


def masked(trainer):
    return set((head_of(trainer).bias == MASKED).nonzero().flatten().tolist())


def scored(model, ids, length):
    """Log-probs of the last `length` tokens as the trainer's passes compute them."""
    labels = ids.clone()
    labels[:, :-length] = -100
    return model(input_ids=ids, attention_mask=torch.ones_like(ids), labels=labels, fused_lm_head=True).log_probs[
        :, -length:
    ]


def test_a_masked_policy_is_the_softmax_over_the_tokens_that_are_left(tmp_path):
    """Log-probs and their gradient by hand in float64: logits of the bare model, masked ones left out of the sum."""
    trainer = make_trainer(tmp_path, **RATE)
    trainer.vocabulary.draw(0)
    model, dropped = trainer.policies.module.policies["conjecturer"], masked(trainer)
    assert 0.2 * len(trainer.vocabulary.tokens) < len(dropped) < 0.6 * len(trainer.vocabulary.tokens)
    left = [i for i in range(head_of(trainer).out_features) if i not in dropped]
    ids = torch.tensor([left[:12], left[12:24]])
    head_of(trainer).weight = torch.nn.Parameter(head_of(trainer).weight.detach().clone())  # no longer the embedding's
    found = scored(model, ids, 5)
    (gradient,) = torch.autograd.grad(found.sum(), head_of(trainer).weight)
    trainer.vocabulary.lift()
    hidden = model.base_model(input_ids=ids).last_hidden_state[:, -6:-1].detach().double()
    weight = head_of(trainer).weight.detach().double().requires_grad_()
    logits = hidden @ weight.T
    expected = logits.gather(2, ids[:, -5:, None])[..., 0] - logits[..., left].logsumexp(-1)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)
    (by_hand,) = torch.autograd.grad(expected.sum(), weight)
    torch.testing.assert_close(gradient.double(), by_hand, rtol=1e-4, atol=1e-5)
    assert not by_hand[sorted(dropped)].any()
    plain = scored(model, ids, 5).double()
    assert bool((found.double() > plain).all())  # log Z_M is what the plain score lacks


def test_no_masked_token_is_sampled_each_round_has_its_mask_and_none_is_left_between(tmp_path):
    trainer = make_trainer(tmp_path, **RATE)
    seen = []

    def see(role, rollout):
        if role == "conjecturer":
            ids = rollout.tensors["completion_ids"][rollout.tensors["completion_mask"].bool()].tolist()
            seen.append((masked(trainer), set(ids)))

    on_sample(trainer, see)
    before = set(trainer.model.state_dict())
    trainer.train()
    assert len(seen) == 4 and all(dropped and not dropped & ids for dropped, ids in seen)
    assert len({tuple(sorted(dropped)) for dropped, _ in seen}) == 4
    assert not masked(trainer) and set(trainer.model.state_dict()) == before
    assert not any(name.endswith("lm_head.bias") for name in before)
    assert "bias" not in vars(head_of(trainer, "prover")) and head_of(trainer, "prover").bias is None
    # One optimizer step a round: the scores of the sampling time are those of the loss.
    assert all(line["conjecturer/importance_weight"] == pytest.approx(1.0) for line in rounds(tmp_path))


@pytest.mark.slow
def test_a_resumed_run_equals_the_straight_run_bit_for_bit(tmp_path):
    several = dict(RATE, steps_per_round=2, max_steps=4, save_strategy="steps", save_steps=2)
    straight = make_trainer(tmp_path / "a", **several)
    straight.train()
    resumed = make_trainer(tmp_path / "b", **several)
    resumed.train(resume_from_checkpoint=str(tmp_path / "a" / "checkpoint-4"))
    assert equal(weights(straight), weights(resumed)) and equal(optimizer_state(straight), optimizer_state(resumed))


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"policy_sharing": "tied"}, "masks a whole model, and policy_sharing is 'tied'"),
        ({"conjecturer_beta": 0.1}, "renormalises the policy and not the reference"),
        ({"generation_backend": "continuous_batching"}, "is not told to continuous_batching"),
        ({"conjecturer_vocabulary_dropout": 1.0}, "conjecturer_vocabulary_dropout"),
    ],
)
def test_what_would_not_see_the_mask_is_refused(tmp_path, changes, said):
    with pytest.raises(ConfigError, match=said):
        make_trainer(tmp_path, **{**RATE, **changes})
