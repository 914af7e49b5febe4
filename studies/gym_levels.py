"""Does a bandit over levels teach more than uniform levels? Three tasks of reasoning-gym at equal answers.

    python studies/gym_levels.py                       # the start, then each arm and seed
    python studies/gym_levels.py --quick               # two rounds of each arm: does everything run?
    python studies/gym_levels.py --arms start uniform --tuning --seeds 11     # on problems that no table uses

The tasks: chain_sum, basic_arithmetic and spell_backward, each with one setting of four levels. The start has the
embedded model's architecture, random weights and a tokenizer of characters (the tasks' fixed phrases are one token
each), and is shown right answers by `countdown-selfplay sft`, few of the higher levels (SHOWN). Every arm plays ROUNDS
rounds of 48 problems x 8 answers from these weights, by expert iteration. All are scored on the same held-out
problems, equally many of each level. `half` is an oracle and no rival: it plays the two levels whose solve rate is
nearest one half, measured every third round on answers of its own. Runs are resumable: what is finished is read, and
what was stopped goes on from a checkpoint. Written to --folder: the start, a folder per
arm and seed, `study.md` and `counts.json`.
"""

from __future__ import annotations

import argparse
import json
import string
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from many_runs import FINISHED, finish, finished, play_all, run_folder

from countdown_selfplay.cli.main import as_program

PHRASES = (
    "State the final answer to the following arithmetic problem: ",
    "Calculate ",
    "Spell this word backward (example: sun -> nus): ",
)
"""How the questions of the tasks begin, in their order."""
DOMAIN: dict[str, Any] = {
    "task": ["chain_sum", "basic_arithmetic", "spell_backward"],
    "levels": {
        "chain_sum": {"num_terms": [0, 3], "num_digits": 0},
        "basic_arithmetic": {"num_terms": [0, 3], "num_digits": 0},
        "spell_backward": {"word_len": [0, 3]},
    },
    "prompt": "bare",
    "workers": 1,
}
SHOWN = {0: 3000, 1: 3000, 2: 600, 3: 150}
"""Level -> demonstrations of it that the start is shown, at most: the rarer, the harder it finds the level."""
RUNGS = tuple(SHOWN)
STEPS, ROUNDS = 3000, 80
EACH, ANSWERS = {False: 192, True: 96}, 8  # problems of each level: held out, tuning
ARMS: dict[str, dict[str, Any]] = {
    "start": {},  # the warm start, not trained
    "uniform": {"proposer": "uniform_rungs"},
    "bandit": {"proposer": "bandit_rungs"},
    "ucb": {"proposer": "ucb_rungs"},
    "half": {"proposer": "oracle_rungs", "proposer_kwargs": {"kind": "half"}},
}
"""Arm -> what it changes."""
CONTROL = "uniform"


@lru_cache(maxsize=1)
def played() -> Any:
    """The domain; once a process, for its worker takes seconds to start."""
    from countdown_selfplay.domains import make_domain

    return make_domain("reasoning_gym", DOMAIN)


# -- the start -------------------------------------------------------------------------------------------------------


def characters(folder: Path, texts: Sequence[str]) -> None:
    """The embedded model's architecture with random weights, and a tokenizer of printable characters and PHRASES."""
    import torch
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for tools/
    from tools.make_tiny_model.model import plain_softmax, tiny_config
    from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

    from countdown_selfplay.random_state import private_generator

    signs = ["\n", " ", *string.digits, *string.ascii_letters, *string.punctuation]
    words = ["<pad>", "<s>", "</s>", "<unk>", *PHRASES, *signs]
    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    either = "|".join([*map(_literal, PHRASES), r"[\s\S]"])
    made.pre_tokenizer, made.decoder = pre_tokenizers.Split(Regex(either), "isolated"), decoders.Fuse()
    named = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, padding_side="left", **named)
    unknown = {text for text in texts if 3 in tokenizer.encode(text)}
    assert not unknown, f"signs without a token: {sorted(unknown)[:3]}"
    config = tiny_config()
    config.vocab_size, config.pad_token_id, config.bos_token_id, config.eos_token_id = len(words), 0, 1, 2
    with private_generator(torch.device("cpu"), "gym levels"):
        model = Qwen3ForCausalLM(config)
    model.generation_config = plain_softmax()
    model.generation_config.update(pad_token_id=0, bos_token_id=1, eos_token_id=2)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _literal(text: str) -> str:
    return "".join(rf"\{sign}" if sign in "().+?*" else sign for sign in text)


def warm_start(root: Path, steps: int) -> Path:
    """The folder of the start: random weights that were shown right answers, SHOWN of each level. Held-out problems,
    and those of --tuning, are not among them."""
    from countdown_selfplay.cli.main import main as command

    folder = root / "start"
    if finished(folder, {"steps": steps}, "start.json"):
        return folder
    domain, began = played(), time.process_time()
    kept_out = frozenset(domain.key(one) for one in [*measured(domain, False), *measured(domain, True)])
    problems = [one for rung, most in SHOWN.items() for one in domain.random_of_rung(most, rung, 1, kept_out)]
    rows = [domain.prove_row(one) | {"completion": one.answer} for one in problems]
    shown, untrained = root / "shown.jsonl", root / "untrained"
    characters(untrained, [row["prompt"] + row["completion"] for row in rows])
    shown.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    flags = {
        "model_name_or_path": untrained,
        "dataset_name": shown,
        "output_dir": folder,
        "domain": "reasoning_gym",
        "domain_kwargs": json.dumps(DOMAIN),
        "eval_problems": 0,
        "max_steps": steps,
        "per_device_train_batch_size": 64,
        "gradient_accumulation_steps": 1,
        "learning_rate": 2e-3,
        "lr_scheduler_type": "cosine",
        "warmup_steps": steps // 15,
        "weight_decay": 0.0,
        "seed": 0,
        "logging_steps": 100,
        "save_strategy": "no",
        "eval_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "use_cpu": True,
    }
    failed = command(["sft", *(word for name, value in flags.items() for word in (f"--{name}", str(value)))])
    if failed:
        raise SystemExit(failed)
    spent = {"demonstrations": len(rows), "cpu_seconds": time.process_time() - began}
    finish(folder, {"settings": {"steps": steps}, **spent}, "start.json")
    return folder


# -- a run -----------------------------------------------------------------------------------------------------------


def measured(domain: Any, tuning: bool) -> list[Any]:
    """Held-out problems of every level, or those by which settings were chosen. No run trains on either; a table has
    one of them alone."""
    from countdown_selfplay.domains import held_out_by_rung

    if tuning:
        return [one for rung in RUNGS for one in domain.random_of_rung(EACH[tuning], rung, 7)]
    return list(held_out_by_rung(domain, RUNGS, EACH[tuning]))


def run(task: tuple[str, int, Path, int, bool]) -> None:
    """Train one arm with one seed, or finish what an earlier call began, and score it."""
    arm, seed, root, rounds, tuning = task
    folder = run_folder(root, arm, seed)
    settings = {"rounds": 0 if arm == "start" else rounds, "tuning": tuning}
    if finished(folder, settings):
        return
    import transformers
    from datasets import Dataset

    from countdown_selfplay import JointConjecturerProverTrainer, JointSelfPlayConfig
    from countdown_selfplay.evaluation import evaluate_prover
    from countdown_selfplay.training.checkpoints import newest
    from countdown_selfplay.training.rollouts import sampling_as

    args = JointSelfPlayConfig(
        str(folder),
        domain="reasoning_gym",
        domain_kwargs=DOMAIN,
        roles={"conjecturer": {"players": 0}},
        anchor_fraction=0.0,
        prover_objective="expert_iteration",
        prover_objective_kwargs={"reuse": 4, "per_problem": 2, "capacity": 1000, "per_token": True},
        problems_per_round=48,
        prover_num_generations=8,
        prover_sequences_per_step=64,
        steps_per_round=8,
        per_device_train_batch_size=64,
        prover_learning_rate=1e-4,
        lr_scheduler_type="constant",
        weight_decay=0.0,
        beta=0.0,
        max_completion_length=12,
        gradient_checkpointing=False,
        max_steps=max(rounds, 1),
        save_steps=max(rounds // 2, 1),
        save_total_limit=1,
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
        guard=False,  # a control must not be rolled back
        seed=seed,
        **ARMS[arm],
    )
    domain, began = played(), time.process_time()
    problems = measured(domain, tuning)
    kept_out = Dataset.from_list([domain.prove_row(one) for one in problems + measured(domain, not tuning)])
    trainer = JointConjecturerProverTrainer(str(root / "start"), args=args, eval_dataset=kept_out, domain=domain)
    trainer.remove_callback(transformers.PrinterCallback)
    if arm != "start":
        trainer.train(resume_from_checkpoint=newest(folder, 1) is not None)
    with sampling_as(trainer.engine, "prover"):
        policy = trainer.policies.module, trainer.processing_class
        found = evaluate_prover(*policy, problems, domain, ANSWERS, (1, ANSWERS), max_new_tokens=12)
    rows = [row for row in trainer.state.log_history if "round/generations" in row]
    probed = int(sum(row.get("proposer/probe_answers", 0.0) for row in rows))
    cost = {
        "answers": trainer.counts.samples.get("prover", 0) - probed,
        "probe_answers": probed,
        "steps": sum(row.get("prover/steps", 0.0) for row in rows),
        "mean_rung": [round(row["proposer/rung_mean"], 2) for row in rows],
        "cpu_seconds": time.process_time() - began,
    }
    tasks = [one.task for one in problems]
    finish(folder, {"after": {"prover": found.to_dict()}, "tasks": tasks, "cost": cost, "settings": settings})
    print(f"{arm:>8} seed {seed}: pass@1 {found.pass_at[1].value:.3f}, {cost['cpu_seconds']:.0f} CPU s", flush=True)


# -- what is told ----------------------------------------------------------------------------------------------------


def table(root: Path, arms: Sequence[str], seeds: Sequence[int]) -> str:
    """Markdown: pass@1 of every level, their mean and every task, and what each arm has more than `uniform`; and the
    right answers by problem as counts.json."""
    from countdown_selfplay.lab.compare import aligned_arms, compare_arms, load_arms, write_counts

    files = {arm: [run_folder(root, arm, seed) / FINISHED for seed in seeds_of(arm, seeds)] for arm in arms}
    loaded = aligned_arms(load_arms([f"{arm}={','.join(map(str, own))}" for arm, own in files.items()]))
    by_name = {arm.name: arm for arm in loaded}
    first = json.loads(files[arms[0]][0].read_text())
    keys, rungs = loaded[0].results[0].keys, first["after"]["prover"]["rungs"]
    groups = {"all": keys} | {
        f"level {rung}": [key for key, own in zip(keys, rungs, strict=True) if own == rung] for rung in RUNGS
    }
    groups |= {
        task: [key for key, own in zip(keys, first["tasks"], strict=True) if own == task] for task in DOMAIN["task"]
    }
    write_counts(root / "counts.json", loaded)
    counts = json.loads((root / "counts.json").read_text())
    (root / "counts.json").write_text(json.dumps({**counts, "rungs": rungs}, separators=(",", ":")) + "\n")
    head = f"| pass@1 | {' | '.join(f'{name} ({len(own)})' for name, own in groups.items())} |"
    lines = [head, "|---" * (len(groups) + 1) + "|"]
    for arm in loaded:
        means = [[_pass_at_1(one.only(own)) for one in arm.results] for own in groups.values()]
        cells = [f"{sum(own) / len(own):.3f}" for own in means]
        if len(arm.results) > 1:
            cells[0] += f" ({', '.join(f'{one:.3f}' for one in means[0])})"
        lines.append(f"| {arm.name} | {' | '.join(cells)} |")
    for arm in loaded:
        if arm.name == CONTROL or CONTROL not in by_name:
            continue
        both = [by_name[CONTROL], arm]
        found = [
            compare_arms([replace(one, results=[r.only(own) for r in one.results]) for one in both], (1,))
            for own in groups.values()
        ]
        cells = [str(one.differences[0].percentile) for one in found]
        lines.append(f"| {arm.name} less {CONTROL} | {' | '.join(cells)} |")
    costs = {arm: [json.loads(file.read_text())["cost"] for file in own] for arm, own in files.items()}
    lines += [
        "",
        "| arm | answers | of the oracle | optimizer steps | mean level, first ten and last ten rounds | CPU s |",
    ]
    lines.append("|---" * 6 + "|")
    for arm, own in costs.items():
        if arm == "start":
            continue
        ends = [_mean([_mean(one["mean_rung"][part]) for one in own]) for part in (slice(10), slice(-10, None))]
        counted = [f"{_mean([one[name] for one in own]):,.0f}" for name in ("answers", "probe_answers", "steps")]
        spent = f"{_mean([one['cpu_seconds'] for one in own]):.0f}"
        lines.append(f"| {' | '.join([arm, *counted, f'{ends[0]:.2f}, {ends[1]:.2f}', spent])} |")
    return "\n".join(lines) + "\n"


def _pass_at_1(result: Any) -> float:
    return float(sum(result.correct)) / (result.n * len(result.correct))


def _mean(values: Sequence[float]) -> float:
    return float(sum(values)) / max(len(values), 1)


def seeds_of(arm: str, seeds: Sequence[int]) -> Sequence[int]:
    """The start is the same for all seeds."""
    return seeds[:1] if arm == "start" else seeds


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, help="Default: runs/gym-levels, with --quick runs/gym-quick.")
    parser.add_argument("--seeds", type=int, nargs="+", help="Default: 1 to 3; 1 with --quick.")
    parser.add_argument("--arms", nargs="+", choices=list(ARMS), default=list(ARMS))
    parser.add_argument("--rounds", type=int, help=f"Of every arm ({ROUNDS}; with --quick 2).")
    parser.add_argument("--steps", type=int, help=f"Of the warm start ({STEPS}; with --quick 20).")
    parser.add_argument("--workers", type=int, default=1, help="Runs side by side, one core each.")
    parser.add_argument("--tuning", action="store_true", help="Score on the problems by which settings were chosen.")
    parser.add_argument("--quick", action="store_true", help="One seed and two rounds of every arm.")
    asked = parser.parse_args(argv)
    root = asked.folder or Path("runs/gym-quick" if asked.quick else "runs/gym-levels")
    root.mkdir(parents=True, exist_ok=True)
    rounds, steps = asked.rounds or (2 if asked.quick else ROUNDS), asked.steps or (20 if asked.quick else STEPS)
    seeds = asked.seeds or ([1] if asked.quick else [1, 2, 3])
    warm_start(root, steps)
    tasks = [(arm, seed, root, rounds, asked.tuning) for seed in seeds for arm in asked.arms]
    play_all(run, [one for one in tasks if one[1] in seeds_of(one[0], seeds)], asked.workers)
    text = table(root, asked.arms, seeds)
    (root / "study.md").write_text(text, encoding="utf-8")
    print(f"\n{text}\nAlso in {root}: study.md and counts.json.")
    return 0


if __name__ == "__main__":
    as_program(main)
