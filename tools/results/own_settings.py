"""The small tables of the papers' own settings: SGS in steps of 32 trained sequences, critics of four numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from countdown_selfplay.statistics.bootstrap import t_interval

from .arena import markdown
from .readers import Row, load

ENDS = 5
"""Rounds at either end of a run, of those that have a metric, that its first and last values are means over."""


def parts() -> dict[str, str]:
    """Name of a mark -> the text between it and the end mark."""
    critics = load("critic_four_study.json")
    return {
        "sgs of 32": markdown(of_32(load("sgs_32_study.json"))),
        "critics apart": markdown(apart(critics)),
        "critic rows": markdown(trained(critics)),
        "four meetings": markdown(meetings(critics)),
    }


def over_seeds(values: Sequence[float], digits: int = 3) -> str:
    """Mean, with Student's interval from two values on; – without any."""
    known = [float(value) for value in values if np.isfinite(value)]
    if len(known) < 2:
        return f"{known[0]:.{digits}f}" if known else "–"
    found = t_interval(known)
    return f"{found.value:.{digits}f} [{found.low:.{digits}f}, {found.high:.{digits}f}]"


def ends(rounds: Sequence[Sequence[float | None]]) -> str:
    """Means over seeds of the first and the last rounds with a value."""
    known = [[value for value in seed if value is not None] for seed in rounds]
    pairs = [(np.mean(own[:ENDS]), np.mean(own[-ENDS:])) for own in known if own]
    return "{:.2f}, {:.2f}".format(*np.mean(pairs, axis=0)) if pairs else "–"


def of_32(study: Row) -> Iterator[Sequence[str]]:
    yield (
        "arm and rate", "seeds", "solved", f"after {study['rounds_of_equal_attempts']} rounds", "steps",
        "trained sequences a step", "R_guide, first and last rounds", "R_solve", "entropy",
    )  # fmt: skip
    for arm, own in study["arms"].items():
        steps, trained = ([sum(filter(None, seed)) for seed in own.get(name, [])] for name in ("steps", "trained"))
        each = {round(t / s, 2) for t, s in zip(trained, steps, strict=True) if s}
        yield (
            arm, str(len(own["of_seeds"])), over_seeds(own["of_seeds"]), over_seeds(own["at_equal_attempts"]),
            f"{np.mean(steps):.0f}" if any(steps) else "–", ", ".join(f"{size:g}" for size in sorted(each)) or "–",
            *(ends(own.get(name, [])) for name in ("r_guide", "r_solve", "entropy")),
        )  # fmt: skip


def apart(study: Row) -> Iterator[Sequence[str]]:
    yield "critic", "of", "distance", "of a critic from itself", "difference"
    for role in ("helpful", "misleading"):
        for pair in ("start/1", "start/2", "1/2"):
            own = [seed[role][pair] for seed in study["apart"] if pair in seed[role]]
            sides = [[one[name] for one in own] for name in ("distance", "same")]
            gaps = [one["distance"] - one["same"] for one in own]
            yield role, pair.replace("/", " and "), *map(over_seeds, sides), over_seeds(gaps)


def trained(study: Row) -> Iterator[Sequence[str]]:
    yield "role", "rows, iteration 1", "rows, iteration 2"
    for role in ("prover", "helpful", "misleading"):
        yield role, *(", ".join(str(rows_of(seed, role, i)) for seed in study["rows"]) for i in (1, 2))


def rows_of(lines: Sequence[Row], role: str, iteration: int) -> Any:
    own = [line["rows"] for line in lines if (line["role"], line["iteration"]) == (role, iteration)]
    return own[0] if own else "–"


def meetings(study: Row) -> Iterator[Sequence[str]]:
    """Means over seeds: rows are provers, columns critics."""
    names = [f"{rate}: {critic}" for rate in study["win_rates"] for critic in ("start", "1", "2")]
    yield "prover", *names
    means = [np.mean(np.array(matrices, dtype=float), axis=0) for matrices in study["win_rates"].values()]
    for i, prover in enumerate(("start", "1", "2")):
        yield prover, *(f"{value:.3f}" for mean in means for value in mean[i])
