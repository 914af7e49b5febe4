"""Does a bandit over levels teach more than uniform levels? Three tasks of reasoning-gym, equal answers, three seeds.

    python studies/gym_levels.py                  # the warm start, then each arm and seed, two processes
    python studies/gym_levels.py --quick          # two rounds of each, to see that all runs

The tasks: chain_sum, basic_arithmetic and letter_counting, each with one setting of four levels. A model of 0.5M
parameters, characters as tokens, begins with random weights and is shown right answers of the lowest two levels
(`warm_up`). Every arm then plays ROUNDS rounds of 48 problems x 8 answers of all levels from these weights, by expert
iteration, and is scored on the same held-out problems, 64 of each level, 8 answers each. Runs are resumable: what is
finished is read. Written to --folder: the start, a folder per arm and seed, `study.json` and `study.md`.
"""

from __future__ import annotations

import argparse
import json
import string
import sys
import time
from pathlib import Path
from typing import Any

from many_runs import finish, finished, play_all, run_folder

DOMAIN: dict[str, Any] = {
    "task": ["chain_sum", "basic_arithmetic", "letter_counting"],
    "levels": {
        "chain_sum": {"num_terms": [0, 3], "num_digits": 0},
        "basic_arithmetic": {"num_terms": [0, 3], "num_digits": 0},
        "letter_counting": {"words": [0, 3]},
    },
    "prompt": "bare",
    "workers": 1,
}
RUNGS, KNOWN = (0, 1, 2, 3), (0, 1)
ROUNDS, STEPS = 40, 2000
ARMS: dict[str, dict[str, Any]] = {
    "uniform": {"proposer": "uniform_rungs"},
    "bandit": {"proposer": "bandit_rungs"},
}


def characters(folder: Path) -> tuple[Any, Any]:
    """A model with random weights, and a tokenizer of the printable characters."""
    import torch
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    words = ["<pad>", "</s>", "<unk>", "\n", " ", *string.digits, *string.ascii_letters, *string.punctuation]
    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    made.pre_tokenizer, made.decoder = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated"), decoders.Fuse()
    named = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, padding_side="left", **named)
    torch.manual_seed(0)
    sizes = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 3, "num_attention_heads": 4}
    more = {"num_key_value_heads": 4, "head_dim": 32, "max_position_embeddings": 512, "tie_word_embeddings": True}
    model = Qwen3ForCausalLM(Qwen3Config(vocab_size=len(words), pad_token_id=0, eos_token_id=1, **sizes, **more))
    tokenizer.save_pretrained(folder)
    return model, tokenizer


def warm_up(folder: Path, steps: int, domain: Any) -> None:
    """Right answers of the lowest levels, batches of 48, loss on the answers; held-out problems are not among them."""
    import torch

    if finished(folder, {"steps": steps}, "start.json"):
        return
    begin = time.perf_counter()
    model, tokenizer = characters(folder)
    problems = [one for rung in KNOWN for one in domain.random_of_rung(2000, rung, rung)]
    texts = [(domain.prove_row(one)["prompt"], f"{one.answer}</s>") for one in problems]
    pairs = [(tokenizer.encode(asked), tokenizer.encode(answer)) for asked, answer in texts]
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=steps)
    generator = torch.Generator().manual_seed(0)
    for step in range(steps):
        batch = [pairs[i] for i in torch.randint(len(pairs), (48,), generator=generator)]
        width = max(len(asked) + len(answer) for asked, answer in batch)
        ids = torch.tensor([[0] * (width - len(a) - len(b)) + a + b for a, b in batch])
        labels = torch.tensor([[-100] * (width - len(b)) + b for _, b in batch])
        loss = model(input_ids=ids, attention_mask=(ids != 0).long(), labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step(), schedule.step(), optimizer.zero_grad()
        if step % 200 == 199:
            print(f"warm start: step {step + 1} of {steps}, loss {float(loss.detach()):.3f}", flush=True)
    model.save_pretrained(folder)
    measured = score(model, tokenizer, domain)
    finish(folder, {"settings": {"steps": steps}, "seconds": time.perf_counter() - begin, **measured}, "start.json")


def score(model: Any, tokenizer: Any, domain: Any) -> dict[str, Any]:
    """pass@1 of each level and of each task."""
    from countdown_selfplay.evaluation import evaluate_prover

    problems = [one for rung in RUNGS for one in domain.held_out_of_rung(64, rung)]
    found = evaluate_prover(model, tokenizer, problems, domain, 8, (1,), max_new_tokens=16)
    rates = [(one, correct / found.n) for one, correct in zip(problems, found.correct, strict=True)]
    mean = lambda own: sum(own) / len(own)  # noqa: E731
    by_rung = {str(rung): mean([rate for one, rate in rates if sum(one.levels) == rung]) for rung in RUNGS}
    by_task = {task: mean([rate for one, rate in rates if one.task == task]) for task in DOMAIN["task"]}
    return {"by_rung": by_rung, "by_task": by_task, "mean": mean(list(by_rung.values()))}


def play(task: tuple[str, int, int, Path]) -> None:
    """One arm with one seed."""
    from datasets import Dataset
    from transformers import AutoTokenizer

    from countdown_selfplay import JointConjecturerProverTrainer, JointSelfPlayConfig
    from countdown_selfplay.domains import make_domain

    arm, seed, rounds, root = task
    folder = run_folder(root, arm, seed)
    settings = {"rounds": rounds}
    if finished(folder, settings):
        return
    args = JointSelfPlayConfig(
        str(folder),
        domain="reasoning_gym",
        domain_kwargs=DOMAIN,
        roles={"conjecturer": {"players": 0}},
        anchor_fraction=0.0,
        prover_objective="expert_iteration",
        prover_objective_kwargs={"reuse": 4, "per_problem": 2, "capacity": 1000, "per_token": True},
        prover_samples_per_round=384,
        prover_num_generations=8,
        prover_sequences_per_step=64,
        steps_per_round=8,
        per_device_train_batch_size=64,
        prover_learning_rate=5e-4,
        lr_scheduler_type="constant",
        weight_decay=0.0,
        beta=0.0,
        max_completion_length=16,
        gradient_checkpointing=False,
        max_steps=rounds,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
        guard=False,
        seed=seed,
        **ARMS[arm],
    )
    begin = time.perf_counter()
    domain = make_domain("reasoning_gym", DOMAIN)
    unused = Dataset.from_list([domain.prove_row(one) for one in domain.random(48, 0)])  # proposals take every slot
    trainer = JointConjecturerProverTrainer(str(root / "start"), args=args, train_dataset=unused)
    trainer.train()
    tokenizer = AutoTokenizer.from_pretrained(root / "start")
    measured = score(trainer.policies.module, tokenizer, trainer.domain)
    finish(folder, {"settings": settings, "seconds": time.perf_counter() - begin, **measured})


def table(root: Path, seeds: list[int], rounds: int) -> str:
    """study.md: the mean over the seeds, and each seed's value."""
    start = json.loads((root / "start" / "start.json").read_text())
    found = {
        arm: [json.loads((run_folder(root, arm, s) / "evaluation.json").read_text()) for s in seeds] for arm in ARMS
    }
    head = [*(f"level {rung}" for rung in RUNGS), "mean", *DOMAIN["task"]]
    of = lambda one: [*(one["by_rung"][str(r)] for r in RUNGS), one["mean"], *one["by_task"].values()]  # noqa: E731
    rows = [("start", [of(start)]), *((arm, [of(one) for one in ones]) for arm, ones in found.items())]
    lines = [f"| pass@1 | {' | '.join(head)} |", f"|{'---|' * (len(head) + 1)}"]
    for name, values in rows:
        cells = []
        for own in zip(*values, strict=True):
            spread = f" ({', '.join(f'{100 * one:.0f}' for one in own)})" if len(own) > 1 else ""
            cells.append(f"{100 * sum(own) / len(own):.1f}{spread}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    (root / "study.json").write_text(json.dumps({"rounds": rounds, "start": start, **found}, indent=1) + "\n")
    return "\n".join(lines) + "\n"


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python studies/gym_levels.py", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("--folder", type=Path, default=Path("runs/gym_levels"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--steps", type=int, default=STEPS, help="of the warm start")
    parser.add_argument("--workers", type=int, default=2, help="runs at a time")
    parser.add_argument("--quick", action="store_true", help="2 rounds, 20 steps, one seed")
    options = parser.parse_args(argv)
    if options.quick:
        options.rounds, options.steps, options.seeds = 2, 20, options.seeds[:1]
    from countdown_selfplay.domains import make_domain

    domain = make_domain("reasoning_gym", DOMAIN)
    warm_up(options.folder / "start", options.steps, domain)
    tasks = [(arm, seed, options.rounds, options.folder) for seed in options.seeds for arm in ARMS]
    play_all(play, tasks, options.workers)
    text = table(options.folder, options.seeds, options.rounds)
    (options.folder / "study.md").write_text(text)
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
