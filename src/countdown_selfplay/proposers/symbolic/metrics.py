"""What symbolic proposers log. Most of it exists in the rounds that refresh the generated problems alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import inf
from typing import Any

from ...contract.metric import Metric

SYMBOLIC = (
    Metric("proposer/raw", "Candidates made in a refresh, before any filter."),
    Metric(
        "proposer/valid_rate",
        "Of these, the share that passed every symbolic check (Task Difficulty and Diversity: 65 to 70%). Low: most "
        "candidates are refused; `proposer/rejected_<reason>` says why.",
        healthy=(0.2, inf),
        cure="Widen the ranges (`operands`, `number_high`, `target_high`), so that fewer candidates are refused.",
    ),
    Metric(
        "proposer/rejected_<reason>",
        "Share of the candidates refused, by the first check that failed: out_of_range, unsolvable (no target in "
        "range asks for such an expression), trivial (the plain sum or product of the numbers), held_out, duplicate "
        "(of this refresh), archived (selected in an earlier one).",
    ),
    Metric(
        "proposer/eligible_rate",
        "Of the valid candidates, the share that the selection might have taken: 1 but for `hard_band` (Task "
        "Difficulty and Diversity: 1, .447 and .682). Near 0: the gate starves the solver.",
        healthy=(0.1, inf),
        cure="Widen the band (`low`, `high` and `least_diversity` of selection_kwargs).",
    ),
    Metric(
        "proposer/refused_<verdict>",
        "Of the valid candidates, the share that `hard_band` refused as too_hard, too_easy or low_diversity.",
    ),
    Metric(
        "proposer/selected",
        "Candidates that went into the buffer. 0: all were refused, and anchors fill the slots.",
        healthy=(1, inf),
        cure="Raise `candidates`, or widen the band (`low` and `high` of selection_kwargs).",
    ),
    Metric("proposer/archive_size", "Generated problems that novelty is measured against; it grows."),
    Metric("proposer/buffer_size", "Generated problems that the solver's batches are drawn from."),
    Metric(
        "proposer/diversity",
        "Mean distance of the selected to the archive, in [0, 1]. It falls as the archive fills. Near 0: the selected "
        "problems are repeats in the eyes of the distance, as with the 7 features of Task Difficulty and Diversity "
        "from step 30 on.",
        healthy=(0.01, inf),
        trip=(0.001, inf),
        word="novelty",
        cure="Let the proposer tell more problems apart (features: 13), or raise `diversity` or `candidates`.",
    ),
    Metric(
        "proposer/least_p", "Least estimated solve rate among the selected (Task Difficulty and Diversity, figure 4)."
    ),
    Metric(
        "proposer/selected_p",
        "Mean estimated solve rate of the selected.",
        healthy=(0.05, 0.9),
        cure="Move the band (`low` and `high` of selection_kwargs), or ask for another difficulty (`operands`, "
        "`number_high`).",
    ),
    Metric("proposer/score", "Mean R_gen of the valid candidates."),
    Metric("proposer/selected_score", "Mean R_gen of the selected."),
    Metric("proposer/arm_<arm>", "Share of the candidates that an arm, or an action of the policy, made."),
    Metric("proposer/value_<arm>", "A bandit's estimate of an arm: mean reward, in [0, 1]."),
    Metric(
        "proposer/q_<action>",
        "Probability that the action policy gives an action, mean over the seeds of a refresh, before it learns from "
        "them: whether a trained proposer has moved.",
    ),
    Metric(
        "proposer/policy_entropy",
        "Entropy of the action policy in nats, ln 16 = 2.77 at most.",
        healthy=(0.1, inf),
        cure="Raise `entropy` of the proposer, or lower its `learning_rate`.",
    ),
    Metric("proposer/policy_baseline", "Moving mean of R_gen that the action policy is compared with."),
    Metric(
        "proposer/estimate_error",
        "Mean |estimated - measured solve rate| of the problems that were played for the first time. It rises between "
        "two refreshes of the predictor: the estimates are stale.",
    ),
    Metric(
        "proposer/brier_before",
        "Brier score, on freshly measured solve rates, of the estimates that the candidates were selected by.",
    ),
    Metric(
        "proposer/calibration_before",
        "Calibration error of these estimates on the fresh rates: mean |p - rate| over tenths of p. High: the "
        "predictor was stale, or badly calibrated.",
        healthy=(-inf, 0.2),
        cure="Label more, and more often (`relabel`, `relabel_every`, `played_labels`).",
    ),
    Metric(
        "proposer/bias_before", "Mean estimate less mean fresh rate: above 0 where problems are harder than thought."
    ),
    Metric(
        "proposer/brier_after",
        "The same score, on the same fresh rates, after the predictor was refitted: by trees and a calibration "
        "that had not seen the problem.",
    ),
    Metric("proposer/calibration_after", "Calibration error after the predictor was refitted, likewise."),
    Metric(
        "proposer/predictor_auc",
        "AUC of the predictor on the fresh rates, by trees that had not seen the problem.",
        healthy=(0.6, inf),
        cure="Label more candidates (`relabel`, `relabel_samples`, `played_labels`).",
    ),
    Metric("proposer/labels", "Solve rates that the predictor is fitted to."),
    Metric(
        "proposer/rate_at_<tenth>",
        "Mean measured solve rate of the labels whose estimate, by trees that had not seen them, begins with "
        "0.<tenth>: about 0.<tenth>5 where the predictor is calibrated.",
    ),
)
"""Symbolic proposers."""


def cascade(reasons: Sequence[str], verdicts: Sequence[str], arms: Sequence[str]) -> dict[str, Any]:
    """Shares of raw, valid and eligible candidates, by reason and by arm."""
    counts, gate = Counter(reasons), Counter(verdicts)
    made = Counter(name for arm in arms for name in arm.split("+"))
    raw, valid = len(reasons), counts.pop("ok", 0)
    found: dict[str, Any] = {"proposer/raw": raw, "proposer/valid_rate": valid / raw}
    found |= {f"proposer/rejected_{reason}": count / raw for reason, count in sorted(counts.items())}
    found |= {f"proposer/arm_{arm}": count / raw for arm, count in sorted(made.items())}
    if valid:
        found["proposer/eligible_rate"] = gate.pop("admitted", 0) / valid
        found |= {f"proposer/refused_{verdict}": count / valid for verdict, count in sorted(gate.items())}
    return found
