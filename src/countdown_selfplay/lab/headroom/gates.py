"""The four conditions under which a curriculum can pay, judged from counts of right answers. Pure functions."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import comb
from typing import Any

import numpy as np

from ...evaluation.summary import rungs_text, stratified
from ...statistics.bootstrap import CHANGE, paired_bootstrap, paired_differences
from ...statistics.pass_at_k import pass_at_k_array

Counts = Mapping[int, Sequence[int]]
"""Rung -> right answers to each of its problems."""


@dataclass(frozen=True)
class Gate:
    """Result of a gate. number: 1 to 4. open: whether the condition holds. found: the measurement and the required
    value. figures: JSON values. undecided: not open, and too few problems to call it shut."""

    number: int
    name: str
    open: bool
    found: str
    figures: dict[str, Any] = field(default_factory=dict)
    undecided: bool = False

    @property
    def word(self) -> str:
        return "open" if self.open else "undecided" if self.undecided else "shut"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"word": self.word}


def mean_pass(counts: Counts, n: int, k: int) -> dict[int, float]:
    """Return pass@k of each rung."""
    return {rung: float(pass_at_k_array(counts_R, n, k).mean()) for rung, counts_R in counts.items()}


def support(counts: Counts, n: int, lowest_needs: float = 0.3) -> Gate:
    """Gate 1: the start solves the lowest rung (pass@n of at least `lowest_needs`) and never the highest."""
    solved = mean_pass(counts, n, n)
    low, high = min(solved), max(solved)
    passed = solved[low] >= lowest_needs and solved[high] == 0
    sentence = (
        f"pass@{n} of the start is {solved[low]:.2f} on rung {low} (at least {lowest_needs:g} is needed) and "
        f"{solved[high]:.2f} on rung {high} (0 is needed)"
    )
    name = "zero support at the top, known atoms at the bottom"
    return Gate(1, name, passed, sentence, {f"pass@{n}": _keyed(solved)})


def mixed_chance(n: int, group: int) -> np.ndarray:
    """Return, for a problem with c of n answers right, c = 0..n, the probability that `group` of them, drawn
    without replacement, contain a right answer and a wrong one: 1 - C(n - c, group) / C(n, group) - C(c, group)
    / C(n, group)."""
    whole = comb(n, group)
    return np.array([1 - (comb(n - c, group) + comb(c, group)) / whole for c in range(n + 1)])


def frontier(
    before: Counts,
    after: Counts,
    n: int,
    group: int,
    thin: float = 0.15,
    moves: float = 0.1,
    after_what: str = "a run",
) -> Gate:
    """Gate 2: of problems uniform over the rungs, a share below `thin` has answers of both types among `group`, and
    their rungs change as the prover learns: the total variation distance between their shares by rung, before and
    after a run, is at least `moves`, and above the 95% quantile of 2,000 random swaps of each problem's two counts."""
    chance = mixed_chance(n, group)
    mixed = [{rung: chance[list(counts_R)] for rung, counts_R in counts.items()} for counts in (before, after)]
    by_rung = [{rung: float(counts_R.mean()) for rung, counts_R in one.items()} for one in mixed]
    shares = [float(np.mean(list(counts_R.values()))) for counts_R in by_rung]
    moved = float(_moved(*(np.array(list(counts_R.values())) for counts_R in by_rung)))
    by_chance = _moved_by_chance(mixed[0], mixed[1])
    passed = 0 < shares[0] < thin and moved >= moves and moved > by_chance
    sentence = (
        f"{shares[0]:.1%} of uniform problems are the frontier of the start (more than 0 and less than {thin:.0%} is "
        f"needed), and after {after_what} {shares[1]:.1%}, {moved:.2f} of which lies on other rungs (at least "
        f"{moves:g} is needed, and more than {by_chance:.2f}, which chance gives)"
    )
    figures = {"before": _keyed(by_rung[0]), "after": _keyed(by_rung[1]), "share": shares, "moved": moved}
    return Gate(2, "a thin frontier that moves", passed, sentence, {**figures, "moved_by_chance": by_chance})


def _moved(before_R: np.ndarray, after_R: np.ndarray) -> np.ndarray:
    """Return the total variation distance of the shares by rung, the last axis: 0 of two zeros, 1 where one is 0."""
    sums = before_R.sum(-1, keepdims=True), after_R.sum(-1, keepdims=True)
    parts = [part / np.where(total > 0, total, 1) for part, total in zip((before_R, after_R), sums, strict=True)]
    both = (sums[0] > 0).astype(int) + (sums[1] > 0).astype(int)
    return np.where(both[..., 0] == 1, 1.0, np.abs(parts[0] - parts[1]).sum(-1) / 2)


def _moved_by_chance(before: Mapping[int, np.ndarray], after: Mapping[int, np.ndarray], times: int = 2000) -> float:
    """Return the 95% quantile of `_moved` if each problem's two values are swapped at random."""
    generator = np.random.default_rng(0)
    swapped: list[list[np.ndarray]] = [[], []]
    for rung, a in before.items():
        b = after[rung]
        coin = generator.integers(2, size=(times, len(a)), dtype=bool)
        swapped[0].append(np.where(coin, b, a).mean(1))
        swapped[1].append(np.where(coin, a, b).mean(1))
    return float(np.quantile(_moved(*(np.stack(values, -1) for values in swapped)), 0.95))


def frontier_rung(counts: Counts, n: int, group: int, above: int = 3, enough: float = 0.1) -> int | None:
    """Return the upper edge of the frontier: of the rungs with `above` higher ones, the highest with a share of
    `enough` of the problems at the frontier; without one, the rung with most of it. None without a frontier."""
    chance = mixed_chance(n, group)
    shares = {rung: float(chance[list(counts[rung])].mean()) for rung in sorted(counts)[:-above]}
    edge = [rung for rung, share in shares.items() if share >= enough]
    best = edge[-1] if edge else max(shares, key=lambda rung: (shares[rung], -rung), default=None)
    return best if best is not None and shares[best] > 0 else None


def transfer(before: Counts, after: Counts, rung: int | None, n: int, k: int, rises: float = 0.05) -> Gate:
    """Gate 3: after training on `rung` alone, the next one rises in pass@k by at least `rises` with an interval above
    0, and the third above it does not. None: there was no rung to train on."""
    name = "banded transfer"
    if rung is None:
        return Gate(3, name, False, "the start solves all or none of the problems that have three rungs above theirs")
    rungs = sorted(before)
    near, far = rungs[rungs.index(rung) + 1], rungs[rungs.index(rung) + 3]
    gains = {one: paired_bootstrap(before[one], after[one], n, k=k) for one in (rung, near, far)}
    rose = {one: gain.difference >= rises and gain.low > 0 for one, gain in gains.items()}
    changes = (f"rung {one} {gain.difference:+.2f} [{gain.low:.2f}, {gain.high:.2f}]" for one, gain in gains.items())
    why = "the next rung does not rise, so nothing carries upwards"
    if rose[far]:
        why = "the third rung rises too, so the hard ones need no curriculum"
    elif rose[near]:
        why = "the gain reaches the next rung and not the third"
    sentence = (
        f"trained on rung {rung} alone, pass@{k} changes by {', '.join(changes)}: {why} (a rise is {rises:g} or more)"
    )
    figures = {str(one): [gain.difference, gain.low, gain.high] for one, gain in gains.items()}
    return Gate(3, name, rose[near] and not rose[far], sentence, {"trained_on": rung, f"pass@{k}": figures})


def head_room(
    arms: Mapping[str, Counts], controls: Sequence[str], oracle: str, n: int, k: int, margin: float = 0.02
) -> Gate:
    """Gate 4: the mean pass@1 of the arm `oracle` exceeds that of the best of `controls` by at least `margin`, with
    an interval above 0; pass@k is reported too. The mean is over the rungs above the lowest with a right answer in
    any arm, with equal weights, so that unreachable rungs have no effect. The interval resamples problems within
    rungs, for these runs alone, without the variance of other seeds. One that contains both 0 and the margin leaves
    the gate undecided."""
    above = sorted(arms[oracle])[1:]
    rungs = [rung for rung in above if any(sum(counts[rung]) for counts in arms.values())] or above
    scores = {arm: _score(counts, rungs, n, 1) for arm, counts in arms.items()}
    best = max(controls, key=lambda arm: scores[arm])
    groups = [paired_differences(arms[best][rung], arms[oracle][rung], n, 1) for rung in rungs]
    ahead = stratified(groups, bounds=CHANGE)
    passed = ahead.value >= margin and ahead.low > 0
    undecided = not passed and ahead.high >= margin
    sentence = (
        f"at equal answers the oracle ({oracle}) ends at a mean pass@1 of {scores[oracle]:.3f} over the rungs "
        f"{rungs_text(rungs)}, the best control ({best}) at {scores[best]:.3f}: {ahead.value:+.3f} [{ahead.low:.3f}, "
        f"{ahead.high:.3f}] (at least {margin:g} is needed, and an interval above 0)"
    )
    means = {arm: {str(j): _score(counts, rungs, n, j) for j in dict.fromkeys((1, k))} for arm, counts in arms.items()}
    figures = {"oracle": oracle, "best_control": best, "rungs": rungs, "mean_pass_at": means}
    figures["ahead"] = [ahead.value, ahead.low, ahead.high]
    return Gate(4, "head-room", passed, sentence, figures, undecided)


def verdict(gates: Sequence[Gate]) -> str:
    shut = [f"gate {gate.number} ({gate.name})" for gate in gates if gate.word == "shut"]
    if shut:
        are = "is" if len(shut) == 1 else "are"
        return f"A curriculum can hardly pay in this setting: {' and '.join(shut)} {are} shut."
    if any(gate.undecided for gate in gates):
        return (
            "Whether a curriculum can pay in this setting is undecided: the lead of gate 4 is too uncertain; measure "
            "more problems (--gate_problems) or longer runs (--gate_rounds)."
        )
    if len(gates) == 4:
        return "A curriculum can pay in this setting: all four gates are open."
    numbers = rungs_text([gate.number for gate in gates])
    return f"Nothing measured here speaks against a curriculum: all gates that were measured ({numbers}) are open."


def _score(counts: Counts, rungs: Sequence[int], n: int, k: int) -> float:
    return float(np.mean([pass_at_k_array(counts[rung], n, k).mean() for rung in rungs]))


def _keyed(values: Mapping[int, float]) -> dict[str, float]:
    return {str(rung): value for rung, value in values.items()}
