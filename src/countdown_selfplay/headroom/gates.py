"""The four conditions under which a curriculum can pay, judged from counts of right answers. Plain figures in, a gate
with its figures and a sentence out; nothing here samples or trains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import comb
from typing import Any

import numpy as np

from ..evaluation.rungs import stratified
from ..statistics.bootstrap import CHANGE, paired_bootstrap, paired_differences
from ..statistics.pass_at_k import pass_at_k_array

Counts = Mapping[int, Sequence[int]]
"""Rung -> right answers to each of its problems."""


@dataclass(frozen=True)
class Gate:
    """number: 1 to 4. open: whether the condition holds. found: what was measured, and what it would have to be.
    figures: plain JSON values."""

    number: int
    name: str
    open: bool
    found: str
    figures: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def mean_pass(counts: Counts, n: int, k: int) -> dict[int, float]:
    """pass@k of each rung."""
    return {rung: float(pass_at_k_array(own, n, k).mean()) for rung, own in counts.items()}


def support(counts: Counts, n: int, lowest_needs: float = 0.3) -> Gate:
    """Gate 1: the start solves the lowest rung (pass@n of at least `lowest_needs`) and never the highest. Above it
    there is something to climb to, and below something to climb from."""
    solved = mean_pass(counts, n, n)
    low, high = min(solved), max(solved)
    passed = solved[low] >= lowest_needs and solved[high] == 0
    found = (
        f"pass@{n} of the start is {solved[low]:.2f} on rung {low} (at least {lowest_needs:g} is needed) and "
        f"{solved[high]:.2f} on rung {high} (0 is needed)"
    )
    return Gate(1, "zero support at the top, known atoms at the bottom", passed, found, {f"pass@{n}": _keyed(solved)})


def mixed_chance(n: int, group: int) -> np.ndarray:
    """Of a problem with c of n answers right, c = 0..n: how likely `group` of them, drawn without replacement, hold a
    right answer and a wrong one: 1 - C(n - c, group) / C(n, group) - C(c, group) / C(n, group)."""
    whole = comb(n, group)
    return np.array([1 - (comb(n - c, group) + comb(c, group)) / whole for c in range(n + 1)])


def frontier(
    before: Counts, after: Counts, n: int, group: int, thin: float = 0.15, moves: float = 0.1, after_what: str = ""
) -> Gate:
    """Gate 2: of problems uniform over the rungs, less than a share `thin` has answers of both kinds among `group`,
    and where these lie changes as the prover learns: the total variation distance between their shares by rung, before
    and after a run, is at least `moves`."""
    chance = mixed_chance(n, group)
    found = [{rung: float(chance[list(own)].mean()) for rung, own in counts.items()} for counts in (before, after)]
    shares = [float(np.mean(list(own.values()))) for own in found]
    moved = 1.0  # from nothing to something, and from something to nothing
    if all(shares):
        parts = [np.array(list(own.values())) / sum(own.values()) for own in found]
        moved = float(np.abs(parts[0] - parts[1]).sum() / 2)
    elif not any(shares):
        moved = 0.0
    passed = shares[0] < thin and moved >= moves
    said = (
        f"{shares[0]:.0%} of uniform problems are the frontier of the start (less than {thin:.0%} is needed), and "
        f"after {after_what or 'a run'} {shares[1]:.0%}, {moved:.2f} of which lies on other rungs (at least "
        f"{moves:g} is needed)"
    )
    figures = {"before": _keyed(found[0]), "after": _keyed(found[1]), "share": shares, "moved": moved}
    return Gate(2, "a thin frontier that moves", passed, said, figures)


def frontier_rung(counts: Counts, n: int, group: int, above: int = 3, enough: float = 0.1) -> int | None:
    """The upper edge of the frontier, from which a climb would go on: of the rungs that have `above` higher ones, the
    highest where a share of `enough` of the problems is at the frontier; where none is, the one with most of it. None
    where there is no frontier."""
    chance = mixed_chance(n, group)
    shares = {rung: float(chance[list(counts[rung])].mean()) for rung in sorted(counts)[:-above]}
    edge = [rung for rung, share in shares.items() if share >= enough]
    best = edge[-1] if edge else max(shares, key=lambda rung: (shares[rung], -rung), default=None)
    return best if best is not None and shares[best] > 0 else None


def transfer(before: Counts, after: Counts, rung: int, n: int, k: int, rises: float = 0.05) -> Gate:
    """Gate 3: trained on `rung` alone, the next one rises in pass@k by at least `rises` with an interval above 0, and
    the third above it does not."""
    rungs = sorted(before)
    near, far = rungs[rungs.index(rung) + 1], rungs[rungs.index(rung) + 3]
    gains = {one: paired_bootstrap(before[one], after[one], n, k=k) for one in (rung, near, far)}
    rose = {one: gain.difference >= rises and gain.low > 0 for one, gain in gains.items()}
    words = ", ".join(
        f"rung {one} {gain.difference:+.2f} [{gain.low:.2f}, {gain.high:.2f}]" for one, gain in gains.items()
    )
    why = (
        "what was learned reaches the next rung and not the third"
        if rose[near] and not rose[far]
        else "the third rung rises too, so the hard ones need no curriculum"
        if rose[far]
        else "the next rung does not rise, so nothing carries upwards"
    )
    found = f"trained on rung {rung} alone, pass@{k} changes by {words}: {why} (a rise is {rises:g} or more)"
    figures = {str(one): [gain.difference, gain.low, gain.high] for one, gain in gains.items()}
    return Gate(3, "banded transfer", rose[near] and not rose[far], found, {"trained_on": rung, f"pass@{k}": figures})


def head_room(arms: Mapping[str, Counts], controls: Sequence[str], n: int, k: int, margin: float = 0.03) -> Gate:
    """Gate 4: the oracle's mean pass@k over the rungs above the lowest is ahead of the best of `controls` by at least
    `margin`, with an interval above 0. The interval resamples problems within rungs: it is one of these runs, and
    does not hold what other seeds would bring."""
    rungs = sorted(arms["oracle"])[1:]
    scores = {arm: _score(counts, rungs, n, k) for arm, counts in arms.items()}
    best = max(controls, key=lambda arm: scores[arm])
    groups = [paired_differences(arms[best][rung], arms["oracle"][rung], n, k) for rung in rungs]
    ahead = stratified(groups, bounds=CHANGE)
    passed = ahead.value >= margin and ahead.low > 0
    found = (
        f"at equal answers the oracle ends at a mean pass@{k} of {scores['oracle']:.3f}, the best control ({best}) at "
        f"{scores[best]:.3f}: {ahead.value:+.3f} [{ahead.low:.3f}, {ahead.high:.3f}] (at least {margin:g} is needed)"
    )
    means = {arm: {str(j): _score(counts, rungs, n, j) for j in (1, k)} for arm, counts in arms.items()}
    figures = {"best_control": best, "ahead": [ahead.value, ahead.low, ahead.high], "mean_pass_at": means}
    return Gate(4, "head-room", passed, found, figures)


def verdict(gates: Sequence[Gate]) -> str:
    """One sentence."""
    shut = [f"gate {gate.number} ({gate.name})" for gate in gates if not gate.open]
    if shut:
        are = "is" if len(shut) == 1 else "are"
        return f"A curriculum can hardly pay in this setting: {' and '.join(shut)} {are} shut."
    if len(gates) == 4:
        return "A curriculum can pay in this setting: all four gates are open."
    asked = " and ".join(str(gate.number) for gate in gates)
    return f"Nothing measured here speaks against a curriculum: gate {asked} open, the others were not asked for."


def _score(counts: Counts, rungs: Sequence[int], n: int, k: int) -> float:
    return float(np.mean([pass_at_k_array(counts[rung], n, k).mean() for rung in rungs]))


def _keyed(values: Mapping[int, float]) -> dict[str, float]:
    return {str(rung): value for rung, value in values.items()}
