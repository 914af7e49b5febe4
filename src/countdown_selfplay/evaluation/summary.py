"""What a prover's answers add up to: pass@k, majority@k and rates with 95% intervals, overall and by stratum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from ..countdown.verifier import WELL_FORMED
from ..statistics.bootstrap import bootstrap_mean, share_interval
from ..statistics.majority import majority_at_k
from ..statistics.pass_at_k import pass_at_k_array
from .answers import Answer, AnswerSet
from .rungs import LADDER, ladder

MAJORITY = (8, 32)  # Wang et al. reports these; n itself is added


def powers_of_two(n: int) -> list[int]:
    """1, 2, 4, ... up to n."""
    return [1 << i for i in range(n.bit_length())]


def summarise(
    answers: AnswerSet, resamples: int = 10_000, seed: int = 0, ladder_rungs: Sequence[int] = LADDER
) -> dict[str, Any]:
    """Plain JSON values. Intervals are percentile bootstraps over problems, so that a problem's answers stay together,
    but for Wilson's where all problems are alike (`share_interval`).

    format: share of answers that hold a complete, legal expression, whatever its value; Countdown's alone.
    majority_at: not in moves, where an episode is no vote.
    by_operands, by_stratum, by_rung: the same figures for each group of problems, where there are at least two groups;
    those of a rung also have `correct`. ladder: with rungs, the mean over those of `ladder_rungs` (rungs.py).
    """
    by_problem, voted = answers.by_problem(), answers.setting.get("answers") != "moves"
    result = {
        **figures(by_problem, answers.n, resamples, seed, voted),
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
        if len(labels) > 1:
            result[name] = {
                str(one): figures(
                    [rows for rows in by_problem if label(rows[0]) == one], answers.n, resamples, seed, voted
                )
                for one in sorted(labels, key=lambda one: (isinstance(one, str), one or 0))
            }
    for rung, found in result.get("by_rung", {}).items():
        own = [rows for rows in by_problem if str(rows[0].rung) == rung]
        found["correct"] = [sum(row.correct for row in rows) for rows in own]
    score = ladder(result.get("by_rung", {}), powers_of_two(answers.n), ladder_rungs, resamples, seed)
    return result if score is None else {**result, "ladder": score}


def figures(
    by_problem: Sequence[Sequence[Answer]], n: int, resamples: int, seed: int, voted: bool = True
) -> dict[str, Any]:
    """The figures of some problems with n answers each; `voted`: with majorities."""
    correct = [sum(row.correct for row in rows) for rows in by_problem]
    votes = [[row.answer for row in rows] for rows in by_problem]
    verdicts = [[row.correct for row in rows] for rows in by_problem]

    def share(of: Callable[[Answer], float], over_problems: Any = share_interval) -> dict[str, float]:
        found = over_problems([sum(map(of, rows)) / n for rows in by_problem], resamples, seed)
        return dict(found.to_dict())

    majorities = {
        str(k): share_interval(majority_at_k(votes, verdicts, k), resamples, seed).to_dict()
        for k in (sorted({*(k for k in MAJORITY if k < n), n}) if voted else ())
    }
    return {
        "problems": len(by_problem),
        "n": n,
        "pass_at": {
            str(k): share_interval(pass_at_k_array(correct, n, k), resamples, seed).to_dict() for k in powers_of_two(n)
        },
        **({"majority_at": majorities} if voted else {}),
        "score": share(lambda row: row.score),
        **({} if by_problem[0][0].operands is None else {"format": share(lambda row: row.reason in WELL_FORMED)}),
        "truncated": share(lambda row: row.truncated),
        "tokens": share(lambda row: row.tokens, bootstrap_mean),
    }
