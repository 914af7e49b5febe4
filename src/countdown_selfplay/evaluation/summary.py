"""Summary of a prover's answers: pass@k, majority@k and rates with 95% intervals, overall, by stratum and by rung, and
the ladder score (mean over rungs); two summaries as evaluation.json."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..countdown.verifier import WELL_FORMED
from ..data.run_files import write_atomically
from ..statistics.bootstrap import (
    CHANGE,
    SHARE,
    Bounds,
    Estimate,
    bootstrap_mean,
    ends,
    paired_bootstrap,
    paired_differences,
    resampled_means,
    share_interval,
)
from ..statistics.pass_at_k import majority_at_k, pass_at_k_array
from .answers import Answer, AnswerSet

LADDER = tuple(range(4, 11))
"""Rungs over which the ladder score averages: Countdown's 4 to 10 numbers."""

RESAMPLES = 10_000
MAJORITY = (8, 32)  # Wang et al. reports these; n itself is added


def by_rung(
    correct: Sequence[int], rungs: Sequence[int], n: int, ks: Sequence[int], seed: int = 0
) -> dict[str, dict[str, Any]]:
    """Return JSON values by ascending rung: {"problems", "n", "correct", "pass_at"}. correct: right answers to each
    problem of the rung, of `n`. pass_at: with the intervals of `share_interval`."""
    tables = {}
    for rung in sorted(set(rungs)):
        counts = [count for count, one in zip(correct, rungs, strict=True) if one == rung]
        pass_at = {str(k): share_interval(pass_at_k_array(counts, n, k), seed=seed).to_dict() for k in ks}
        tables[str(rung)] = {"problems": len(counts), "n": n, "correct": counts, "pass_at": pass_at}
    return tables


def pass_by_rung(correct: Sequence[int], rungs: Sequence[int], n: int, ks: Sequence[int]) -> dict[str, float]:
    """Return {"pass@1/rung_4": value} for a training log, and "pass@1/ladder" for two or more rungs of LADDER."""
    rates: dict[str, float] = {}
    for k in ks:
        values_P = pass_at_k_array(correct, n, k)
        means = {rung: float(values_P[np.asarray(rungs) == rung].mean()) for rung in sorted(set(rungs))}
        rates |= {f"pass@{k}/rung_{rung}": mean for rung, mean in means.items()}
        known = [means[rung] for rung in LADDER if rung in means]
        if len(known) > 1:
            rates[f"pass@{k}/ladder"] = float(np.mean(known))
    return rates


def pass_by_axes(
    axes: Sequence[Mapping[str, Any]], correct: Sequence[int], n: int, ks: Sequence[int]
) -> dict[str, float]:
    """Return {"pass@1/target_13-25": value} for every axis with several values, the rung excepted. axes: `Domain.axes`
    of each problem."""
    rates: dict[str, float] = {}
    rates_P = {k: pass_at_k_array(correct, n, k) for k in ks}
    for axis in dict.fromkeys(name for places in axes for name in places if name != "rung"):
        of_P = np.asarray([str(places.get(axis)) for places in axes])
        values = sorted({str(places[axis]) for places in axes if places.get(axis) is not None})
        for value in values if len(values) > 1 else ():
            rates |= {f"pass@{k}/{axis}_{value}": float(rates_P[k][of_P == value].mean()) for k in ks}
    return rates


def ladder(
    figures: Mapping[str, Mapping[str, Any]],
    ks: Sequence[int],
    rungs: Sequence[int] = LADDER,
    seed: int = 0,
) -> dict[str, Any] | None:
    """Return {"rungs", "pass_at"}: mean pass@k over the members of `rungs` in `figures` (a result of by_rung), each
    with equal weight; None if there are fewer than two. The interval resamples the problems within each rung (a
    stratified bootstrap), so that a rung without a right answer does not widen it."""
    known = [rung for rung in rungs if str(rung) in figures]
    if len(known) < 2:
        return None
    pass_at = {}
    for k in ks:
        values = [pass_at_k_array(figures[str(rung)]["correct"], figures[str(rung)]["n"], k) for rung in known]
        pass_at[str(k)] = stratified(values, seed).to_dict()
    return {"rungs": known, "pass_at": pass_at}


def differences_by_rung(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, dict[str, list[float]]]:
    """Return {k: [difference, low, high]} by rung and for "ladder": changes in pass@k, paired over problems, with 95%
    percentile intervals; {} without `by_rung`. before, after: JSON values of a prover's evaluation."""
    a, b = before.get("by_rung", {}), after.get("by_rung", {})
    differences: dict[str, dict[str, list[float]]] = {}
    for rung in a:
        counts, n = (a[rung]["correct"], b[rung]["correct"]), a[rung]["n"]
        differences[rung] = {k: _change(*counts, n, int(k)) for k in a[rung]["pass_at"]}
    if "ladder" in before:
        score = differences["ladder"] = {}
        for k in before["ladder"]["pass_at"]:
            pairs = [(a[str(r)], b[str(r)]) for r in before["ladder"]["rungs"]]
            groups = [paired_differences(x["correct"], y["correct"], x["n"], int(k)) for x, y in pairs]
            score[k] = [*stratified(groups, bounds=CHANGE).to_dict().values()]
    return differences


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, list[float]]:
    """Return the prover's changes in pass@k (after - before), paired over problems, with 95% percentile intervals."""
    a, b = before["prover"], after["prover"]
    return {f"pass@{k}": _change(a["correct"], b["correct"], a["n"], int(k)) for k in a["pass_at"]}


def _change(before: Sequence[int], after: Sequence[int], n: int, k: int) -> list[float]:
    return [*paired_bootstrap(before, after, n, k=k).to_dict().values()]


def write_evaluation(folder: Path, before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Write evaluation.json, both evaluations and the prover's differences, and return its contents."""
    result: dict[str, Any] = {"before": before, "after": after}
    if "prover" in before and "prover" in after:
        result["difference"] = differences(before, after)
        if by_rung := differences_by_rung(before["prover"], after["prover"]):
            result["difference_by_rung"] = by_rung
    write_atomically(folder / "evaluation.json", json.dumps(result, indent=1) + "\n")
    return result


def rungs_text(rungs: Sequence[int]) -> str:
    """Format adjacent rungs as "4 to 10", others as "4, 6, 7"."""
    whole = len(rungs) > 2 and list(rungs) == list(range(rungs[0], rungs[-1] + 1))
    return f"{rungs[0]} to {rungs[-1]}" if whole else ", ".join(map(str, rungs))


def stratified(groups: Sequence[np.ndarray], seed: int = 0, bounds: Bounds = SHARE) -> Estimate:
    """Return the mean of the groups' means with a percentile interval; for equal values, see bootstrap.alike_ends."""
    drawn = [resampled_means(group, RESAMPLES, seed + i) for i, group in enumerate(groups)]
    value = float(np.mean([group.mean() for group in groups]))
    size = sum(map(len, groups))
    low, high = ends(np.full(size, value), np.mean(drawn, 0), 0.95, bounds)
    return Estimate(value, low, high)


def powers_of_two(n: int) -> list[int]:
    """Return the powers of two, 1, 2, 4, ..., up to n."""
    return [1 << i for i in range(n.bit_length())]


def summarise(answers: AnswerSet, seed: int = 0, ladder_rungs: Sequence[int] = LADDER) -> dict[str, Any]:
    """Return the summary of `answers` as JSON values. Intervals are percentile bootstraps over problems, or Wilson's
    if all problems are equal (`share_interval`).

    Keys:
        format: share of answers with a complete, legal expression, whatever its value; Countdown only.
        majority_at: absent in moves, where an episode has no vote.
        by_operands, by_stratum, by_rung: the same values by group of problems, if there are at least two groups; those
            of a rung also have `correct`.
        ladder: with rungs, the mean over those of `ladder_rungs`.
    """
    by_problem, voted = answers.by_problem(), answers.setting.get("answers") != "moves"
    result = {
        **figures(by_problem, answers.n, seed, voted),
        "reasons": dict(Counter(row.reason for row in answers.rows).most_common()),
        "truncated_rate": sum(row.truncated for row in answers.rows) / len(answers.rows),
        "several_answers_rate": sum(row.tags > 1 for row in answers.rows) / len(answers.rows),
        "setting": answers.setting,
        "correct": [sum(row.correct for row in rows) for rows in by_problem],
        "keys": [rows[0].problem for rows in by_problem],
    }
    groups: tuple[tuple[str, Callable[[Answer], int | str | None]], ...] = (
        ("by_operands", lambda row: row.operands),
        ("by_stratum", lambda row: row.stratum),
        ("by_rung", lambda row: row.rung),
    )
    for name, label in groups:
        labels = {label(rows[0]) for rows in by_problem}
        for one in sorted(labels, key=lambda one: (isinstance(one, str), one or 0)) if len(labels) > 1 else ():
            members = [rows for rows in by_problem if label(rows[0]) == one]
            table = figures(members, answers.n, seed, voted)
            if name == "by_rung":
                table["correct"] = [sum(row.correct for row in rows) for rows in members]
            result.setdefault(name, {})[str(one)] = table
    score = ladder(result.get("by_rung", {}), powers_of_two(answers.n), ladder_rungs, seed)
    return result if score is None else {**result, "ladder": score}


def figures(by_problem: Sequence[Sequence[Answer]], n: int, seed: int, voted: bool = True) -> dict[str, Any]:
    """Return pass@k, rates and intervals of problems with n answers each; `voted`: include majority@k."""
    correct = [sum(row.correct for row in rows) for rows in by_problem]
    votes = [[row.answer for row in rows] for rows in by_problem]
    verdicts = [[row.correct for row in rows] for rows in by_problem]

    def share(of: Callable[[Answer], float], over_problems: Any = share_interval) -> dict[str, float]:
        interval = over_problems([sum(map(of, rows)) / n for rows in by_problem], seed=seed)
        return dict(interval.to_dict())

    majorities = {
        str(k): share_interval(majority_at_k(votes, verdicts, k), seed=seed).to_dict()
        for k in (sorted({*(k for k in MAJORITY if k < n), n}) if voted else ())
    }
    return {
        "problems": len(by_problem),
        "n": n,
        "pass_at": {
            str(k): share_interval(pass_at_k_array(correct, n, k), seed=seed).to_dict() for k in powers_of_two(n)
        },
        **({"majority_at": majorities} if voted else {}),
        "score": share(lambda row: row.score),
        **({} if by_problem[0][0].operands is None else {"format": share(lambda row: row.reason in WELL_FORMED)}),
        "truncated": share(lambda row: row.truncated),
        "tokens": share(lambda row: row.tokens, bootstrap_mean),
    }
