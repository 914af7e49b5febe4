"""Whether the trained symbolic proposer moves: the probabilities of its actions before and after a run's refreshes.

    countdown-selfplay solve-rates tiny --problems 1000 --number_high 20 --out rates.jsonl
    python benchmarks/proposer_learning.py rates.jsonl

Two rewards: 1 where the number action is `small` and 0 otherwise; and R_gen, with a predictor that is trained once on
the rates and 13 features. Two lengths of a run of 100 rounds: ten refreshes of 256 candidates (the paper's interval)
and a hundred of 64 (studies/symbolic_proposers.py). An update is one Adam step a refresh. No model is asked.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "studies"))

from fit_least_diversity import Alone

from countdown_selfplay.countdown import CountdownDomain, ProblemSpec
from countdown_selfplay.proposers import make_proposer
from countdown_selfplay.random_state import seed_from

SHOWN = ("small", "resample", "multiply", "divide")


def play(kwargs: dict[str, Any], refreshes: int, paid: bool, seed: int) -> list[dict[str, float]]:
    """What each refresh logged. paid: `small` earns 1 and all else 0, in place of R_gen."""
    domain = CountdownDomain(ProblemSpec((3,), 1, 20, 1, 99), CountdownDomain.tiny().rules, "compact", "compact")
    proposer: Any = make_proposer("factorized", kwargs)
    learn = proposer.learn_scores

    def rewarded(round: Any, scored: Any) -> Any:
        one = np.array([float(arm.startswith("small+")) for arm in scored.arms])
        return learn(round, scored._replace(score=one) if paid else scored)

    proposer.learn_scores = rewarded
    logged = []
    for index in range(refreshes):
        proposer.propose(Alone(domain, index, seed), domain.random(32, seed_from(seed, index), frozenset()))
        logged.append(proposer.logged())
    return logged


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("labels", help="Solve rates, of `countdown-selfplay solve-rates`.")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    common = dict(refresh=1, features=13, difficulty="predictor", relabel_every=0)
    common |= {"difficulty_kwargs": {"labels": options.labels}}
    print(f"| refreshes | reward | {' | '.join(SHOWN)} | mean R_gen, first and last fifth |\n|{'---|' * 7}")
    for refreshes, candidates, keep in ((10, 256, 48), (100, 64, 12)):
        for reward, rate in (("none, frozen", 0.0), ("1 for small", 0.01), ("R_gen", 0.01)):
            own = {**common, "candidates": candidates, "keep": keep, "learning_rate": rate}
            runs = [play(own, refreshes, reward == "1 for small", seed) for seed in range(options.seeds)]
            cells = []
            for action in SHOWN:
                first, last = ([run[at][f"proposer/q_{action}"] for run in runs] for at in (0, -1))
                cells.append(f"{np.mean(first):.2f} -> {' '.join(f'{q:.2f}' for q in last)}")
            score = np.array([[logged["proposer/score"] for logged in run] for run in runs])
            part = refreshes // 5
            gain = f"{score[:, :part].mean():.3f} -> {score[:, -part:].mean():.3f}"
            print(f"| {refreshes} | {reward} | {' | '.join(cells)} | {gain} |", flush=True)


if __name__ == "__main__":
    main()
