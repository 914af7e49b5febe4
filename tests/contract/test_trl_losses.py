# Tests: objectives/grpo.py, objectives/base.py
"""GRPO and Dr. GRPO give the loss and the credit of TRL's own trainer; its CISPO is none of ours."""

import pytest
import torch
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer

from countdown_selfplay.objectives import make_objective
from countdown_selfplay.objectives.base import LossInputs, truncated_weight
from countdown_selfplay.tiny import load_tiny_model


def varied_reward(completions, **kwargs):
    """Depends on the text alone, and differs within nearly every group."""
    return [0.0 if index % 3 else float(len(text)) for index, text in enumerate(completions)]


ROWS = Dataset.from_list([{"prompt": f"{a} {a + 1} {a + 2} = {3 * a + 3} :"} for a in range(2, 6)])


def scored(kind, config, folder, **own):
    """TRL's trainer of the tiny model, and a batch that it has sampled and scored."""
    model, tokenizer = load_tiny_model()
    args = config(
        output_dir=str(folder), per_device_train_batch_size=16, num_generations=4, max_completion_length=16, beta=0.0,
        bf16=False, use_cpu=True, report_to="none", gradient_checkpointing=False, **own,
    )  # fmt: skip
    trainer = kind(model, varied_reward, args=args, train_dataset=ROWS, processing_class=tokenizer)
    trainer.current_gradient_accumulation_steps = 1
    torch.manual_seed(0)
    return trainer, trainer._generate_and_score_completions([{"prompt": ROWS[i // 4]["prompt"]} for i in range(16)])


@pytest.fixture(scope="module", params=["grpo", "dr_grpo"])
def trl_batch(request, tmp_path_factory):
    """(name, TRL's trainer, one scored batch of it whose old log-probs were moved off the current ones)."""
    own = {"loss_type": request.param, "scale_rewards": "group" if request.param == "grpo" else "none"}
    trainer, batch = scored(GRPOTrainer, GRPOConfig, tmp_path_factory.mktemp("trl"), **own)
    noise = torch.randn(batch["completion_ids"].shape) * 0.3
    with torch.no_grad():
        batch["old_per_token_logps"] = current_logps(trainer, batch) + noise
    return request.param, trainer, batch


def current_logps(trainer, batch):
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1)
    return trainer._get_per_token_logps_and_entropies(trainer.model, ids, mask, batch["completion_ids"].size(1))[0]


def test_loss_and_credit_are_those_of_trl_to_float_precision(trl_batch):
    name, trainer, batch = trl_batch
    mask = batch["completion_mask"].float()
    inputs = LossInputs(
        current_logps(trainer, batch), batch["old_per_token_logps"], batch["advantages"], mask, sequences=16.0,
        tokens=float(mask.sum()), groups=4.0, length_cap=16,
    )  # fmt: skip
    ours = make_objective(name).loss(inputs)
    theirs = trainer.compute_loss(trainer.model, batch)
    assert abs(theirs.item()) > 1e-4  # else the comparison would show nothing
    assert float(ours.sums["clipped_rate"]) > 0  # the noise moved some ratios past the clip
    assert ours.loss.item() == pytest.approx(theirs.item(), rel=1e-5, abs=1e-7)
    name, trainer, batch = trl_batch
    texts = trainer.processing_class.batch_decode(batch["completion_ids"], skip_special_tokens=True)
    rewards = torch.tensor(varied_reward(texts)).reshape(4, 4)
    ours = make_objective(name).advantages(rewards).reshape(-1)
    assert torch.allclose(ours, batch["advantages"], atol=1e-6)
    assert ours.abs().max() > 0.1


class FixedSampler:
    """What TRL takes for a vLLM engine: it returns given completions with given log-probs."""

    def __init__(self, completions, logps):
        self.completions, self.logps = completions, logps

    def generate(self, prompts, images, num_generations, profiler):
        return prompts, self.completions, [[[value] for value in row] for row in self.logps], None


@pytest.mark.parametrize("mode", ["token_truncate", "token_mask", "sequence_truncate", "sequence_mask"])
def test_the_correction_for_another_sampler_is_that_of_trl(trl_batch, mode):
    """TRL scores samples of an engine whose log-probs are off by noise; one token has none. Its weight, and its loss
    with that weight, are ours."""
    name, trainer, _ = trl_batch
    texts = [f"{i % 4} + {i % 7} * {i % 5}" for i in range(16)]
    completions = [trainer.processing_class(text, add_special_tokens=False)["input_ids"] for text in texts]
    generator = torch.Generator().manual_seed(1)
    rows = [{"prompt": ROWS[i // 4]["prompt"]} for i in range(16)]
    logps = [(torch.randn(len(ids), generator=generator) * 0.2 - 6.0).tolist() for ids in completions]
    logps[3][1] = None
    settings = {
        "use_vllm": True, "vllm_importance_sampling_correction": True,
        "vllm_generation": FixedSampler(completions, logps), "_last_loaded_step": trainer.state.global_step,
        "vllm_importance_sampling_mode": mode, "vllm_importance_sampling_clip_min": 0.5,
        "vllm_importance_sampling_clip_max": 2.0,
    }  # fmt: skip
    before = {key: getattr(trainer, key, None) for key in settings}
    try:
        for key, value in settings.items():
            setattr(trainer, key, value)
        batch = trainer._generate_and_score_completions(rows)
        theirs = trainer.compute_loss(trainer.model, batch)
    finally:
        for key, value in before.items():
            setattr(trainer, key, value)
    mask = batch["completion_mask"]
    old = batch["old_per_token_logps"]
    weight = truncated_weight(old, batch["sampling_per_token_logps"], mask, mode, 0.5, 2.0)
    assert torch.allclose(weight, batch["importance_sampling_ratio"])
    assert weight.unique().numel() > 1
    inputs = LossInputs(
        current_logps(trainer, batch), old, batch["advantages"], mask.float(), sequences=16.0,
        tokens=float(mask.sum()), groups=4.0, length_cap=16, correction=weight,
    )  # fmt: skip
    assert make_objective(name).loss(inputs).loss.item() == pytest.approx(theirs.item(), rel=1e-5, abs=1e-7)


# On the policy's own samples `rloo` has the gradient of TRL's RLOOTrainer with the KL switched off.


def test_the_gradient_is_that_of_trl(tmp_path):
    trainer, batch = scored(RLOOTrainer, RLOOConfig, tmp_path, normalize_advantages=False)
    model = trainer.model
    theirs = torch.autograd.grad(trainer.compute_loss(model, batch), list(model.parameters()))
    texts = trainer.processing_class.batch_decode(batch["completion_ids"], skip_special_tokens=True)
    objective = make_objective("rloo")
    credit = objective.advantages(torch.tensor(varied_reward(texts)).reshape(4, 4)).reshape(-1)
    assert torch.allclose(credit, batch["advantages"], atol=1e-5)
    logps = current_logps(trainer, batch)
    trained = batch["completion_mask"].float()
    loss = objective.loss(LossInputs(logps, logps.detach(), credit, trained, 16.0, float(trained.sum()))).loss
    ours = torch.autograd.grad(loss, list(model.parameters()))
    norm = torch.cat([g.flatten() for g in theirs]).norm()
    assert norm > 1e-3
    assert torch.cat([(a - b).flatten() for a, b in zip(ours, theirs, strict=True)]).norm() < 1e-4 * norm
