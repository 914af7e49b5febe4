"""GRPO and Dr. GRPO give the loss and the credit of TRL's own trainer on the same samples.

Its CISPO is none of ours: it takes another mean and clips from above only."""

import pytest
import torch
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from countdown_selfplay.objectives import make_objective
from countdown_selfplay.objectives.base import LossInputs
from countdown_selfplay.tiny import load_tiny_model


def varied_reward(completions, **kwargs):
    """Depends on the text alone, and differs within nearly every group."""
    return [0.0 if index % 3 else float(len(text)) for index, text in enumerate(completions)]


@pytest.fixture(scope="module", params=["grpo", "dr_grpo"])
def trl_batch(request, tmp_path_factory):
    """(name, TRL's trainer, one scored batch of it whose old log-probs were moved off the current ones)."""
    model, tokenizer = load_tiny_model()
    args = GRPOConfig(
        output_dir=str(tmp_path_factory.mktemp("trl")),
        loss_type=request.param,
        scale_rewards="group" if request.param == "grpo" else "none",
        per_device_train_batch_size=16,
        num_generations=4,
        max_completion_length=16,
        beta=0.0,
        bf16=False,
        use_cpu=True,
        report_to="none",
        gradient_checkpointing=False,
    )
    rows = Dataset.from_list([{"prompt": f"{a} {a + 1} {a + 2} = {3 * a + 3} :"} for a in range(2, 6)])
    trainer = GRPOTrainer(model, varied_reward, args=args, train_dataset=rows, processing_class=tokenizer)
    trainer.current_gradient_accumulation_steps = 1
    prompts = [{"prompt": rows[i // 4]["prompt"]} for i in range(16)]
    torch.manual_seed(0)
    batch = trainer._generate_and_score_completions(prompts)
    noise = torch.randn(batch["completion_ids"].shape) * 0.3
    with torch.no_grad():
        batch["old_per_token_logps"] = current_logps(trainer, batch) + noise
    return request.param, trainer, batch


def current_logps(trainer, batch):
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1)
    return trainer._get_per_token_logps_and_entropies(trainer.model, ids, mask, batch["completion_ids"].size(1))[0]


def test_the_loss_is_that_of_trl_to_float_precision(trl_batch):
    name, trainer, batch = trl_batch
    mask = batch["completion_mask"].float()
    inputs = LossInputs(
        current_logps(trainer, batch),
        batch["old_per_token_logps"],
        batch["advantages"],
        mask,
        sequences=16.0,
        tokens=float(mask.sum()),
        groups=4.0,
        length_cap=16,
    )
    ours = make_objective(name).loss(inputs)
    theirs = trainer.compute_loss(trainer.model, batch)
    assert abs(theirs.item()) > 1e-4  # else the comparison would show nothing
    assert float(ours.sums["clipped_rate"]) > 0  # the noise moved some ratios past the clip
    assert ours.loss.item() == pytest.approx(theirs.item(), rel=1e-5, abs=1e-7)


def test_the_credit_is_that_of_trl_to_float_precision(trl_batch):
    name, trainer, batch = trl_batch
    texts = trainer.processing_class.batch_decode(batch["completion_ids"], skip_special_tokens=True)
    rewards = torch.tensor(varied_reward(texts)).reshape(4, 4)
    ours = make_objective(name).advantages(rewards).reshape(-1)
    assert torch.allclose(ours, batch["advantages"], atol=1e-6)
    assert ours.abs().max() > 0.1
