"""Draw the shape of every reward of docs/rewards.md: `python docs/plot_rewards.py` writes docs/assets/rewards/*.svg.

Each curve is computed by the reward itself, on the round that the chart's legend describes. A test compares the files
with what this script makes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from countdown_selfplay.countdown import Problem
from countdown_selfplay.lab.report import pictures
from countdown_selfplay.rewards import RewardContext, make_conjecturer_reward, refused_reward
from countdown_selfplay.rewards.prover.verifier import make_length_penalty, make_soft_overlong

FOLDER = Path(__file__).parent / "assets" / "rewards"
RATES = np.linspace(0.0, 1.0, 201)
PROBLEM = Problem((3, 5, 7), 22)
ALIKE = [Problem((3, 5, 8), 22), Problem((3, 7, 9), 22)]  # two numbers and the target shared, of four; 3, 7 and 22
OTHER = [Problem((2, 4, 6), 12), Problem((1, 10, 12), 98), Problem((8, 9, 11), 28), Problem((4, 4, 12), 8)]
EIGHTHS = np.arange(9) / 8  # the other problems of a round of sgs

Curve = Callable[[np.ndarray], np.ndarray]


def plain(name: str, context: RewardContext | None = None, **arguments: object) -> Curve:
    """The reward of problems that do not depend on each other."""
    reward = make_conjecturer_reward(name, arguments)
    known = RewardContext(attempts=8) if context is None else context
    return lambda rates: reward(rates, known)


def one_of(name: str, others: np.ndarray, context: RewardContext) -> Curve:
    """The reward of the first problem of a round, at each rate, while the others keep theirs."""
    reward = make_conjecturer_reward(name)
    return lambda rates: np.array([reward(np.array([rate, *others]), context)[0] for rate in rates])


def repeated(similar: int) -> Curve:
    """r_zero where `similar` of the four other problems of the round overlap with this one."""
    problems = (PROBLEM, *ALIKE[:similar], *OTHER[: 4 - similar])
    return one_of("r_zero", np.full(4, 0.5), RewardContext(problems=problems))


def against(other: float) -> Curve:
    """disagreement of two provers, of which the second has this solve rate."""
    reward = make_conjecturer_reward("disagreement")

    def curve(rates: np.ndarray) -> np.ndarray:
        provers = np.array([rates, np.full(len(rates), other)])
        return reward(provers.mean(0), RewardContext(prover_rates_MP=provers))

    return curve


def novelty(archive: tuple[str, ...]) -> Curve:
    """difficulty_diversity of one problem against an archive."""
    reward = make_conjecturer_reward("difficulty_diversity")
    known = RewardContext(problems=(PROBLEM,), archive=archive)
    return lambda rates: np.array([reward(np.array([rate]), known)[0] for rate in rates])


def refused(reason: str) -> Curve:
    reward = make_conjecturer_reward("solvability_aware")
    return lambda rates: np.full(len(rates), refused_reward(reward, reason, 0.0))


def guided(score: float) -> Curve:
    guide = np.ones(10)
    guide[0] = score
    return one_of("sgs", EIGHTHS, replace(RewardContext(), guide_P=guide))


CHARTS: dict[str, dict[str, Curve]] = {
    "tent": {"peak 0.4, slope 2.5": plain("tent")},
    "binary_band": {"[0.05, 0.85]": plain("binary_band"), "[0.05, 0.75]": plain("binary_band", high=0.75)},
    "learnability": {"4 p (1 - p)": plain("learnability")},
    "frontier_distance": {
        "floor 0 (default)": plain("frontier_distance"),
        "without a floor": plain("frontier_distance", floor=None),
    },
    "adaptive_band": {
        f"recent rate {rate}": plain("adaptive_band", RewardContext(recent_rates=(rate,)))
        for rate in (0.05, 0.4, 0.95)
    },
    "r_zero": {f"{similar} of 4 others alike": repeated(similar) for similar in (0, 1, 2)},
    "sgs": {"guide 1": guided(1.0), "guide 0.5": guided(0.5)},
    "disagreement": {
        "one prover": plain("disagreement"),
        "other prover at 0": against(0.0),
        "other prover at 0.5": against(0.5),
    },
    "difficulty_diversity": {
        "empty archive": novelty(()),
        "others played": novelty(tuple(problem.key for problem in OTHER)),
        "played before": novelty((PROBLEM.key,)),
    },
    "solvability_aware": {
        "played": plain("solvability_aware"),
        "repeated": refused("duplicate"),
        "unsolvable": refused("unsolvable"),
        "out of range": refused("out_of_range"),
        "unreadable": refused("no_tag"),
    },
    "composed": {
        "sum: 0.5 tent + 0.5 learnability": plain(
            "sum", terms=[{"name": "tent", "weight": 0.5}, {"name": "learnability", "weight": 0.5}]
        ),
        "product: tent x learnability": plain("product", factors=["tent", "learnability"]),
        "clip: tent to [0.2, 0.8]": plain("clip", of="tent", low=0.2, high=0.8),
    },
}


def line(label: str, values: np.ndarray) -> pictures.Curve:
    """A curve over RATES in percent, without the points that lie on the line between their neighbours."""
    bends = np.abs(np.diff(values, 2)) > 1e-9
    keep = np.concatenate([[True], bends, [True]])
    return pictures.Curve(label, (RATES * 100)[keep], values[keep])


def length_chart() -> str:
    """The prover's two length terms, over 1,000 tokens of completion."""
    ids = [[0] * round(share * 1000) for share in RATES]
    terms = {
        "length_penalty 0.1": make_length_penalty(0.1, 1000),
        "length_penalty 0.5": make_length_penalty(0.5, 1000),
        "soft_overlong 0.2": make_soft_overlong(0.2, 1000),
    }
    lines = [line(label, np.array(term([""] * len(ids), ids))) for label, term in terms.items()]
    axis = "tokens, % of the completion length"
    return pictures.svg(pictures.line_chart("Prover: length terms", lines, x_label=axis))


def charts() -> dict[str, str]:
    """File name -> SVG text."""
    found = {}
    for name, curves in CHARTS.items():
        lines = [line(label, curve(RATES)) for label, curve in curves.items()]
        figure = pictures.line_chart(name, lines, y_range=(0, 1), x_label="solve rate, %")
        found[f"{name}.svg"] = pictures.svg(figure)
    return {**found, "prover_length.svg": length_chart()}


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in charts().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
        print(f"wrote {name}")
