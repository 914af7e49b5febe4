"""The least diversity at which the hard band refuses as many candidates as seed 004's did.

    countdown-selfplay rloo --max_steps 100 --output_dir runs/tiny-rloo
    python examples/collect_solve_rates.py runs/tiny-rloo
    python examples/fit_least_diversity.py runs/tiny-rloo/solve_rates.jsonl

The paper gives no threshold. Its filtering table gives shares: with 7 features 27.8% of the candidates are refused for
low diversity and 44.7% admitted, so 38.3% of those within the band; with 13 features 1.7% and 68.2%, so 2.4%. (Its
text says 43.7% instead of 27.8%, which leaves too little for the other columns of the table; the table is followed.)
The share within the band is what is fitted: how many candidates are outside of it is a matter of the solver.

The arm is P-Solver: its predictor is fixed, so its candidates do not depend on the run, and ten refreshes of it are
played here without a solver, with several seeds. The threshold is found by bisection.
"""

from __future__ import annotations

import argparse
from typing import Any

from countdown_selfplay import JointSelfPlayConfig
from countdown_selfplay.cli.main import as_program
from countdown_selfplay.config.countdown_fields import domain_from
from countdown_selfplay.config.recipes import recipe_fields
from countdown_selfplay.countdown import CountdownDomain
from countdown_selfplay.proposers import make_proposer
from countdown_selfplay.random_state import seed_from

RECIPE = "tiny/symbolic_p_solver"
REFUSED = {7: 0.278 / (0.278 + 0.447), 13: 0.017 / (0.017 + 0.682)}
"""Of the candidates within the band, by the number of features."""


class Alone:
    """A round of one process in which nothing is sampled."""

    rank, world, held_out = 0, 1, frozenset[str]()

    def __init__(self, domain: CountdownDomain, index: int, seed: int) -> None:
        self.domain, self.index, self.own = domain, index, seed

    def players(self, kind: str) -> list[str]:
        return [kind]

    def room(self, role: str) -> int:
        return 32

    def gather(self, items: Any) -> list[Any]:
        return list(items)

    def seed(self, *key: Any) -> int:
        return seed_from(self.own, self.index, *key)


def refused(threshold: float, kwargs: dict[str, Any], domain: Any, estimator: Any, seeds: int) -> float:
    """Of the candidates within the band, the share that is refused for low diversity; mean over ten refreshes."""
    shares = []
    for seed in range(seeds):
        gate = {**kwargs["selection_kwargs"], "least_diversity": threshold}
        proposer = make_proposer(
            "mutation", {**kwargs, "refresh": 1, "selection_kwargs": gate, "difficulty_kwargs": {}}
        )
        proposer.estimator = estimator
        for index in range(10):
            proposer.propose(Alone(domain, index, seed), domain.random(32, seed_from(seed, index), frozenset()))
            logged = proposer.logged()
            low = logged.get("proposer/refused_low_diversity", 0.0)
            shares.append(low / max(low + logged.get("proposer/eligible_rate", 0.0), 1e-9))
    return sum(shares) / len(shares)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("labels", help="Solve rates, of examples/collect_solve_rates.py.")
    parser.add_argument("--number_high", type=int, default=12, help="Greatest number of the problems (12).")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args(argv)
    fields = recipe_fields(RECIPE, {}, JointSelfPlayConfig)
    kwargs = fields["proposer_kwargs"] | {"difficulty_kwargs": {"labels": options.labels}}
    changes = dict(number_high=options.number_high, proposer_kwargs=kwargs, use_cpu=True, report_to="none")
    domain = domain_from(JointSelfPlayConfig.from_recipe(RECIPE, output_dir="unused", **changes))
    estimator = make_proposer("mutation", kwargs).estimator
    print("| features | wanted | least_diversity | refused |\n|---|---|---|---|")
    for features, wanted in REFUSED.items():
        low, high, own = 0.0, 0.5, {**kwargs, "features": features}
        for _ in range(14):
            middle = (low + high) / 2
            at_most = refused(middle, own, domain, estimator, options.seeds) <= wanted
            low, high = (middle, high) if at_most else (low, middle)
        value = low or high  # where every threshold above 0 refuses more: the least that was tried
        found = refused(value, own, domain, estimator, options.seeds)
        print(f"| {features} | {wanted:.1%} | {value:.5f} | {found:.1%} |", flush=True)
    return 0


if __name__ == "__main__":
    as_program(main)
