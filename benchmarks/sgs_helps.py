"""What conjecturers write for targets of four numbers before any training, and what the rubric says of it.

    python benchmarks/sgs_helps.py          # the warm starts of tiny/sgs and tiny/sgs_32, which `--prepare` makes

One problem for each of 256 targets of the training side, temperature 1, five sampling seeds; means with Student's 95%
intervals over them, so of this one warm start each and not of others.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

from countdown_selfplay.countdown import CountdownDomain, generate_problems, is_solvable
from countdown_selfplay.countdown.guide import is_step
from countdown_selfplay.evaluation.model import load_model
from countdown_selfplay.evaluation.sampling import sample_completions
from countdown_selfplay.statistics.bootstrap import t_interval
from countdown_selfplay.warm_starts.starts import FOUR, SGS

COLUMNS = ("playable", "of these steps towards the target", "relevance (0 to 5)", "score (0 to 8)", "numbers")


def figures(model: Any, tokenizer: Any, domain: CountdownDomain, targets: Any, seed: int) -> list[float]:
    """The columns for one sampling seed."""
    rows = [domain.propose_row(target=target)["prompt"] for target in targets]
    how = {"temperature": 1.0, "max_new_tokens": 20, "batch_size": 1024}
    said = sample_completions(
        model, tokenizer, rows, 1, seed=seed, stop_strings=domain.stop_strings("conjecturer"), **how
    )
    proposals = domain.parse([own[0].text for own in said])
    pairs = [(t, p.problem) for t, p in zip(targets, proposals, strict=True) if p.problem is not None]
    pairs = [(t, p) for t, p in pairs if is_solvable(p, domain.rules)]
    reviews = [domain.helping.review(t, p) for t, p in pairs]
    sums = [
        sum(is_step(t, p, domain.rules) for t, p in pairs),
        sum(review.relevance for review in reviews),
        sum(review.score for review in reviews),
        sum(len(p.numbers) for _, p in pairs),
    ]
    return [len(pairs) / len(targets), *(value / len(pairs) for value in sums)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", default=[str(SGS / "conjecturer"), str(SGS / "conjecturer_steps")])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    options = parser.parse_args()
    domain = replace(CountdownDomain.tiny(), spec=FOUR)
    targets = generate_problems(256, replace(FOUR, operands=(4,)), seed=7, split="train")
    print(f"| conjecturer | {' | '.join(COLUMNS)} |\n{'|---' * (len(COLUMNS) + 1)}|")
    for path in options.models:
        model = load_model(path, "cpu")
        found = [figures(*model, domain, targets, seed) for seed in options.seeds]
        cells = [t_interval(column) for column in zip(*found, strict=True)]
        print(f"| {path} | {' | '.join(f'{c.value:.3f} [{c.low:.3f}, {c.high:.3f}]' for c in cells)} |")


if __name__ == "__main__":
    main()
