"""Solve rates of a trained prover on new problems: what a difficulty predictor is first trained on (Task
Difficulty and Diversity, section 4).

    countdown-selfplay rloo --max_steps 100 --output_dir runs/baseline
    python studies/collect_solve_rates.py runs/baseline --problems 2000
    countdown-selfplay symbolic --recipe tiny/symbolic_p_solver

The second command writes runs/baseline/solve_rates.jsonl, a line per problem: numbers, target, correct, attempts. The
recipe's `difficulty_kwargs: {labels: ...}` names that file. The problems are random ones of the run's own ranges, on
the training side of the split, that the run itself did not generate to train on (of a data set's problems nothing is
known: name it by --apart_from). They are sampled as the run samples in training; features are computed where the file
is read, by the rules of the run that reads it.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from countdown_selfplay.cli.main import as_program
from countdown_selfplay.data.anchors import GENERATED_ANCHORS
from countdown_selfplay.data.files import load_problem_rows
from countdown_selfplay.data.run_files import write_atomically
from countdown_selfplay.errors import DataError
from countdown_selfplay.evaluation.answers import answer_batches
from countdown_selfplay.evaluation.model import load_model, place_of
from countdown_selfplay.evaluation.setting import TRAINING, find_run, setting_of
from countdown_selfplay.random_state import seed_from


def collect(
    policy: tuple[Any, Any], domain: Any, problems: Sequence[Any], samples: int, out: Path, seed: int, **sampling: Any
) -> float:
    """Write the solve rates of a policy (model and tokenizer) to `out`; their mean."""
    correct: Counter[int] = Counter()
    for batch in answer_batches(*policy, problems, domain, samples, seed=seed, **sampling):
        for answer in batch:
            correct[answer.index] += answer.correct
    lines = [
        {"numbers": list(p.numbers), "target": p.target, "correct": correct[i], "attempts": samples}
        for i, p in enumerate(problems)
    ]
    write_atomically(out, "".join(json.dumps(line) + "\n" for line in lines))
    return correct.total() / (len(problems) * samples)


def new_problems(domain: Any, count: int, seed: int, known: Iterable[str]) -> list[Any]:
    """Random problems of a stream of their own: with a run's seed the generator gives what the run trained on."""
    return list(domain.random(count, seed_from("solve rates", seed), frozenset(known)))


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", help="A run folder with a prover in it, a model's folder, or tiny.")
    parser.add_argument("--problems", type=int, default=2000, help="Problems that are asked.")
    parser.add_argument("--samples", type=int, default=8, help="Answers to each (K of the paper: 8).")
    parser.add_argument("--number_high", type=int, help="Greatest number, if not the run's own.")
    parser.add_argument("--seed", type=int, default=0, help="Of the problems and of the answers.")
    parser.add_argument("--apart_from", help="A file of problems that are not asked, such as the run's training data.")
    parser.add_argument("--out", type=Path, help="Default: solve_rates.jsonl in the run folder.")
    options = parser.parse_args(argv)
    run = Path(options.model)
    name = str(run / "prover") if (run / "prover").is_dir() else options.model
    asked = argparse.Namespace(model=name, role="prover", domain=None, domain_kwargs=None, eval_preset=TRAINING)
    asked.number_high = options.number_high
    described = find_run(name)
    if described is None and name != "tiny":
        raise DataError(
            f"'{options.model}' is not a run folder with a prover in it; pass a run's output_dir, or tiny."
        )
    setting = setting_of(asked)
    domain, known = setting.domain, set()
    if described is not None and json.loads(described.read_text())["config"].get("dataset_name") is None:
        trained_with = json.loads(described.read_text())["config"]["seed"]
        known = {domain.key(p) for p in domain.random(GENERATED_ANCHORS, trained_with, frozenset())}
    if options.apart_from:
        known |= {domain.key(domain.problem(row, i)) for i, row in enumerate(load_problem_rows(options.apart_from))}
    problems = new_problems(domain, options.problems, options.seed, known)
    out = options.out or (run if run.is_dir() else Path()) / "solve_rates.jsonl"
    policy = load_model(name, place_of(None))
    mean = collect(policy, domain, problems, options.samples, out, options.seed, **setting.sampling)
    print(f"{len(problems)} problems x {options.samples} answers, mean solve rate {mean:.3f} -> {out}")
    return 0


if __name__ == "__main__":
    as_program(main)
