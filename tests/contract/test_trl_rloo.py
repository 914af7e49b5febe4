# Tests: objectives/__init__.py
"""On the policy's own samples `rloo` has the gradient of TRL's RLOOTrainer with the KL switched off."""

import torch
from datasets import Dataset
from trl import RLOOConfig, RLOOTrainer

from countdown_selfplay.objectives import make_objective
from countdown_selfplay.objectives.base import LossInputs
from countdown_selfplay.tiny import load_tiny_model

from .test_trl_losses import varied_reward


def test_the_gradient_is_that_of_trl(tmp_path):
    model, tokenizer = load_tiny_model()
    args = RLOOConfig(
        output_dir=str(tmp_path), per_device_train_batch_size=16, num_generations=4, max_completion_length=16,
        beta=0.0, bf16=False, use_cpu=True, report_to="none", gradient_checkpointing=False, normalize_advantages=False,
    )  # fmt: skip
    rows = Dataset.from_list([{"prompt": f"{a} {a + 1} {a + 2} = {3 * a + 3} :"} for a in range(2, 6)])
    trainer = RLOOTrainer(model, varied_reward, args=args, train_dataset=rows, processing_class=tokenizer)
    trainer.current_gradient_accumulation_steps = 1
    torch.manual_seed(0)
    batch = trainer._generate_and_score_completions([{"prompt": rows[i // 4]["prompt"]} for i in range(16)])
    theirs = torch.autograd.grad(trainer.compute_loss(model, batch), list(model.parameters()))

    texts = tokenizer.batch_decode(batch["completion_ids"], skip_special_tokens=True)
    objective = make_objective("rloo")
    credit = objective.advantages(torch.tensor(varied_reward(texts)).reshape(4, 4)).reshape(-1)
    assert torch.allclose(credit, batch["advantages"], atol=1e-5)
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1)
    logps = trainer._get_per_token_logps_and_entropies(model, ids, mask, batch["completion_ids"].size(1))[0]
    trained = batch["completion_mask"].float()
    loss = objective.loss(LossInputs(logps, logps.detach(), credit, trained, 16.0, float(trained.sum()))).loss
    ours = torch.autograd.grad(loss, list(model.parameters()))
    norm = torch.cat([g.flatten() for g in theirs]).norm()
    assert norm > 1e-3
    assert torch.cat([(a - b).flatten() for a, b in zip(ours, theirs, strict=True)]).norm() < 1e-4 * norm
