# Tests: policies/forward.py
"""One family through the library against Transformers alone; `python -m tests.zoo.play [NAMES]`."""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from countdown_selfplay import JointConjecturerProverTrainer
from countdown_selfplay.errors import CountdownSelfPlayError
from countdown_selfplay.evaluation.sampling import sample_completions
from countdown_selfplay.policies.forward import scored_at
from tests.joint_config import joint_config
from tests.zoo.families import FAMILIES, folder

START = "Use the numbers below, each exactly once, to make the target. "
PROMPTS = [START + "3 5 7 to 22.", START + "1 2 3 4 5 6 to 99 please, now.", "1 9 8 to 72."]
ANSWER = 12


def alone(model: Any, ids: list[int]) -> list[int]:
    """The greedy answer that Transformers gives to one prompt, up to its end token."""
    row = torch.tensor([ids])
    config = GenerationConfig(max_new_tokens=ANSWER, do_sample=False, eos_token_id=[1], pad_token_id=0)
    found = model.generate(input_ids=row, attention_mask=torch.ones_like(row), generation_config=config)
    answer: list[int] = found[0, len(ids) :].tolist()
    return answer[: answer.index(1)] if 1 in answer else answer


def scored(model: Any, rows: list[tuple[list[int], list[int]]]) -> list[torch.Tensor]:
    """Log-probs of the answers, of left-padded prompts in one batch, as the loss reads them."""
    width = max(len(prompt) for prompt, _ in rows)
    ids = torch.tensor([[0] * (width - len(prompt)) + prompt + answer for prompt, answer in rows])
    mask = torch.tensor([[0] * (width - len(p)) + [1] * (len(p) + len(a)) for p, a in rows])
    labels = ids.masked_fill(mask == 0, -100)
    labels[:, :width] = -100
    found = model(input_ids=ids, attention_mask=mask, labels=labels, fused_lm_head=True).log_probs
    return list(found[:, -len(rows[0][1]) :])


def wrong(source: str) -> str:
    """What of a trained, sampled and scored model differs from Transformers alone; "" if nothing."""
    tokenizer = AutoTokenizer.from_pretrained(source)
    asked = [tokenizer(prompt)["input_ids"] for prompt in PROMPTS]
    model = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float64).eval()
    try:
        expected = [alone(model, ids) for ids in asked]
    except RuntimeError:  # a few cannot compute in double precision, where rounding changes no token
        model = model.float()
        expected = [alone(model, ids) for ids in asked]
    for batch in (PROMPTS[:2], PROMPTS):  # one beginning; none
        found = sample_completions(model, tokenizer, batch, 2, temperature=0.0, max_new_tokens=ANSWER, batch_size=8)
        for row, answer, prompt in zip(found, expected, batch, strict=False):
            if row[0].text != tokenizer.decode(answer, skip_special_tokens=True):
                return f"samples otherwise after {prompt[-12:]!r}"
    rows = [(ids, list(range(10, 18))) for ids in asked]
    with torch.no_grad():
        true = []
        for prompt, answer in rows:
            logits = model(input_ids=torch.tensor([prompt + answer])).logits[0, len(prompt) - 1 : -1]
            true.append(logits.log_softmax(-1).gather(1, torch.tensor(answer)[:, None])[:, 0])
        scored_at(model, 1.0)
        worst = max(float((a - b).abs().max()) for a, b in zip(scored(model, rows), true, strict=True))
    return f"scores otherwise, by {worst:.2g}" if not worst <= 2e-3 else ""


def outcome(name: str, at: Path) -> tuple[str, str]:
    """right, refused (by one sentence), wrong, traceback, or absent (Transformers alone cannot make, save or continue
    it), and what was seen."""
    try:
        source = folder(name, at / "model")
        alone(AutoModelForCausalLM.from_pretrained(source), [10, 11, 12])
    except Exception as error:
        return "absent", f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
    args = joint_config(
        output_dir=str(at / "run"), max_steps=1, per_device_train_batch_size=16, problems_per_round=4,
        proposals_per_round=16, num_generations=4, conjecturer_num_generations=16, prover_prompt="compact",
        conjecturer_prompt="compact", operands=[3, 4], number_high=12, target_low=1, target_high=99,
        max_completion_length=12, save_strategy="no", report_to="none", disable_tqdm=True, use_cpu=True, guard=False,
    )  # fmt: skip
    try:
        JointConjecturerProverTrainer(model=source, args=args).train()
        seen = wrong(source)
    except CountdownSelfPlayError as error:
        return "refused", str(error)
    except Exception as error:
        return "traceback", f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    return ("wrong" if seen else "right"), seen


def main(names: list[str]) -> None:
    counts: Counter[str] = Counter()
    for name in names or FAMILIES:
        with tempfile.TemporaryDirectory() as at:
            kind, seen = outcome(name, Path(at))
        counts[kind] += 1
        print(f"{name:20} {kind:10} {seen}", flush=True)
    print(dict(counts))


if __name__ == "__main__":
    main(sys.argv[1:])
