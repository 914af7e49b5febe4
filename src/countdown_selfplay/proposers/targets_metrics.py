"""Metrics of the proposer `targets`, and the complexity of problems that SGS reports (figure 2)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..contract.domain import in_moves
from ..contract.metric import HIDDEN, SHARE, Metric, Panel

BINS = 10
"""Number of equal parts of a target's history before it was solved (SGS, figure 5)."""

LAST_SOLVED = 300
"""Number of targets, those solved last, whose histories are averaged (SGS, figure 5)."""

STORIES = "targets.json"
"""File of a run folder. `solved`: [target, round that solved it, a digit per earlier attempt: 1 if its synthetic
problem was trainable, else 0] of the last LAST_SOLVED. `aside`: the unsolvable problems."""

_COUNTS = Panel("Targets", (0,), "Targets")
_SYNTHETIC = Panel("Synthetic problems to train on", (0,), "Targets")
_SIZE = Panel("Size of the synthetic problems", (), "Targets")
_COMPLEX = Panel("Complex synthetic problems", SHARE, "Targets")


METRICS = (
    Metric(
        "targets/solve_rate",
        "Cumulative solve rate: share of the targets with a right answer in this round or an earlier one (SGS, "
        "figure 1). It never falls. Flat: the rest is out of reach.",
        word="targets",
        panel=HIDDEN,
        subject="share of targets solved so far",
    ),
    Metric(
        "targets/unsolved",
        "Targets that no answer has solved so far; each gets synthetic problems.",
        panel=_COUNTS.of("unsolved"),
    ),
    Metric(
        "targets/attempted",
        "Share of the targets that were attempted so far. Until it is 1, a round of a `batch` solves targets that "
        "nobody had tried: fits of the solve rate begin there.",
        panel=Panel("Targets attempted so far", SHARE, "Targets", "share"),
    ),
    Metric(
        "targets/newly_solved",
        "Targets that were solved for the first time in this round.",
        panel=Panel("Targets solved for the first time", (0,), "Targets", "targets"),
    ),
    Metric(
        "targets/pass_at_n",
        "Share of the round's targets with a right answer among the round's n attempts (figure 3: n = 8). The "
        "difference to `targets/solve_rate` are targets that are no longer solved.",
        panel=Panel("Targets solved in a round", SHARE, "Targets", "share of targets"),
    ),
    Metric(
        "targets/set_aside",
        "Targets that have no solution: they are reported, and played no more.",
        healthy=(0, 0),
        cure="Take them out of the data set.",
        panel=_COUNTS.of("set aside"),
        subject="number of targets without a solution",
    ),
    Metric(
        "targets/mastered",
        "Targets that every answer solved when they were attempted first, at a pass@1 of 1: they were not hard. They "
        "are reported, and played on as solved ones.",
        healthy=(0, 0),
        cure="Choose harder targets.",
        panel=_COUNTS.of("mastered"),
        subject="number of targets that were not hard",
    ),
    Metric(
        "targets/trainable",
        "Synthetic problems that were solved, at a rate of at most 0.5 (figure 6): what the prover learns from beside "
        "the targets. 0: the conjecturer's problems are too easy or too hard.",
        panel=_SYNTHETIC.of("solved, at most half of the time"),
    ),
    Metric(
        "targets/asked",
        "Requested synthetic problems; `targets/trainable` is a part of them. It falls as targets are solved.",
        panel=_SYNTHETIC.of("requested"),
    ),
    Metric(
        "targets/copied",
        "Share of the proposals that were refused for being a target of the set (`copies_target`). High: the "
        "conjecturer repeats what it is shown.",
        panel=Panel("Proposals that copy a target", SHARE, "Targets", "share"),
    ),
    Metric(
        "targets/problem_size",
        "Mean count of numbers of the synthetic problems that were played (figure 2: the length of a conclusion). "
        "Rising far above `targets/set_size`: the conjecturer makes problems longer without a guide to hold it.",
        panel=_SIZE.of("their numbers"),
    ),
    Metric(
        "targets/problem_complex",
        "Share of the synthetic problems that were played whose every solution is nested three deep or passes through "
        "a fraction (figure 2: disjunctive conclusions). Far above `targets/set_complex`: artificially hard problems.",
        panel=_COMPLEX.of("share"),
    ),
    Metric(
        "targets/set_size",
        "The same count of the target set itself: the line of figure 2.",
        panel=_SIZE.of("of the target set"),
    ),
    Metric(
        "targets/set_complex",
        "The same share of the target set itself: the line of figure 2.",
        panel=_COMPLEX.of("of the target set"),
    ),
    Metric(
        "targets/presolve_<k>",
        "Of the 300 targets solved last, with at least ten rounds before: the share of rounds in tenth k of that time "
        "(0 first, 9 last) in which its synthetic problem was trainable (figure 5). Rising with k: problems come into "
        "reach before their targets do.",
        panel=HIDDEN,
    ),
)

DEEP = 3
"""Smallest depth of a solution tree of a complex problem, as in the rubric (countdown/guide.py)."""


def forms(domain: Any, problems: Sequence[Any], prefix: str) -> dict[str, float]:
    """Return mean size and share of complex problems as `<prefix>_size` and `<prefix>_complex`; {} without a problem,
    and for a domain without such features. In moves only the mean rung. An unsolvable problem is complex."""
    if problems and in_moves(domain):  # complexity is defined by whole solutions, and needs a solver
        return {f"{prefix}_size": float(np.mean([domain.rung(problem) for problem in problems]))}
    names = [] if domain.mutations is None else list(domain.mutations.feature_names)
    if not problems or not {"operands", "depth_min", "needs_fraction"} <= set(names):
        return {}
    found_PF = domain.mutations.features(problems)
    size_P, depth_P, fraction_P = (found_PF[:, names.index(n)] for n in ("operands", "depth_min", "needs_fraction"))
    complex_P = np.isnan(depth_P) | (depth_P >= DEEP) | (fraction_P == 1)
    return {f"{prefix}_size": float(size_P.mean()), f"{prefix}_complex": float(complex_P.mean())}
