"""The least diversity at which the hard band refuses as many candidates as that of Task Difficulty and Diversity.

    countdown-selfplay rloo --max_steps 100 --output_dir runs/tiny-rloo
    countdown-selfplay solve-rates runs/tiny-rloo
    python studies/fit_least_diversity.py runs/tiny-rloo/solve_rates.jsonl
    python studies/fit_least_diversity.py --recipe qwen2.5-0.5b/symbolic_p_solver

The paper gives no threshold. Its filtering table gives shares: with 7 features 27.8% of the candidates are refused for
low diversity and 44.7% admitted, so 38.3% of those within the band; with 13 features 1.7% and 68.2%, so 2.4%. (Its
text says 43.7% instead of 27.8%, which leaves too little for the other columns of the table; the table is followed.)
The share within the band is what is fitted: how many candidates are outside of it is a matter of the solver.

The arm is P-Solver: its predictor is fixed, so its candidates do not depend on the run, and ten refreshes of it are
played here without a solver, with several seeds. Without labels no model is asked at all: candidates are drawn too
hard, too easy or within the band in the paper's shares. The threshold is found by bisection.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from countdown_selfplay import JointSelfPlayConfig
from countdown_selfplay.cli.main import as_program
from countdown_selfplay.config.recipes import recipe_fields
from countdown_selfplay.countdown import CountdownDomain
from countdown_selfplay.domains import domain_from
from countdown_selfplay.proposers import make_proposer
from countdown_selfplay.random_state import seed_from

REFUSED = {7: 0.278 / (0.278 + 0.447), 13: 0.017 / (0.017 + 0.682)}
"""Of the candidates within the band, by the number of features."""
OUTSIDE = {7: (0.071, 0.204), 13: (0.037, 0.264)}
"""Shares of the candidates that the paper's predictor found too hard and too easy."""


class Drawn:
    """Solve rates without a solver: 0, 1 or .4, drawn without regard to the problem."""

    wants_labels = False

    def __init__(self, too_hard: float, too_easy: float) -> None:
        self.shares = too_hard, 1 - too_hard - too_easy, too_easy

    def estimate(self, round: Any, problems: Any, features: Any) -> Any:
        return np.random.default_rng(round.seed("p")).choice([0.0, 0.4, 1.0], len(problems), p=self.shares)


class Alone:
    """A round of one process in which nothing is sampled."""

    rank, world, held_out = 0, 1, frozenset[str]()

    def __init__(self, domain: CountdownDomain, index: int, seed: int) -> None:
        self.domain, self.index, self.own = domain, index, seed

    def players(self, kind: str) -> list[str]:
        return [kind]

    def slots(self, kind: str) -> int:
        return 32

    def gather(self, items: Any) -> list[Any]:
        return list(items)

    def seed(self, *key: Any) -> int:
        return seed_from(self.own, self.index, *key)


def refused(
    threshold: float, kwargs: dict[str, Any], domain: Any, estimator: Any, seeds: int, anchors: int = 32
) -> Any:
    """(2,) of the candidates within the band the share that is refused for low diversity, and of all valid ones the
    share that is admitted; means over ten refreshes. anchors: problems of a round's data."""
    shares = []
    for seed in range(seeds):
        gate = {**kwargs["selection_kwargs"], "least_diversity": threshold}
        own = {**kwargs, "refresh": 1, "selection_kwargs": gate, "difficulty_kwargs": {}}
        proposer = make_proposer("mutation", own)
        proposer.estimator = estimator
        for index in range(10):
            proposer.propose(Alone(domain, index, seed), domain.random(anchors, seed_from(seed, index), frozenset()))
            logged = proposer.logged()
            low = logged.get("proposer/refused_low_diversity", 0.0)
            admitted = logged.get("proposer/eligible_rate", 0.0)
            shares.append((low / max(low + admitted, 1e-9), admitted))
    return np.mean(shares, axis=0)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--recipe", default="tiny/symbolic_p_solver", help="Whose ranges and proposer these are.")
    parser.add_argument("labels", nargs="?", help="Solve rates, of `countdown-selfplay solve-rates` (drawn without).")
    parser.add_argument("--number_high", type=int, help="Greatest number of the problems, if not the recipe's.")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args(argv)
    fields = recipe_fields(options.recipe, {}, JointSelfPlayConfig)
    kwargs = fields["proposer_kwargs"] | {"difficulty_kwargs": {"labels": options.labels} if options.labels else {}}
    changes: dict[str, Any] = dict(proposer_kwargs=kwargs, use_cpu=True, report_to="none")
    if options.number_high is not None:
        changes["number_high"] = options.number_high
    args = JointSelfPlayConfig.from_recipe(options.recipe, output_dir="unused", **changes)
    domain = domain_from(args)
    anchors = fields["problems_per_round"]
    print("| features | wanted | least_diversity | refused | admitted of all |\n|---|---|---|---|---|")
    for features, wanted in REFUSED.items():
        low, high, own = 0.0, 0.5, {**kwargs, "features": features}
        estimator = make_proposer("mutation", kwargs).estimator if options.labels else Drawn(*OUTSIDE[features])
        given = own, domain, estimator, options.seeds, anchors
        for _ in range(14):
            middle = (low + high) / 2
            at_most = refused(middle, *given)[0] <= wanted
            low, high = (middle, high) if at_most else (low, middle)
        value = low or high  # where every threshold above 0 refuses more: the least that was tried
        found, admitted = refused(value, *given)
        print(f"| {features} | {wanted:.1%} | {value:.5f} | {found:.1%} | {admitted:.1%} |", flush=True)
    return 0


if __name__ == "__main__":
    as_program(main)
