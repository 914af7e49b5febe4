"""Metrics of symbolic proposers. Most of them exist only in rounds that refresh the generated problems."""

from collections import Counter
from collections.abc import Sequence
from math import inf
from typing import Any

from ...contract.metric import HIDDEN, SHARE, Metric, Panel

_SECTION = "Symbolic proposer"
_CANDIDATES = Panel("Candidates: valid, and eligible of these", SHARE, _SECTION)
_SELECTED = Panel("Estimated solve rate of the selected", SHARE, _SECTION)
_BRIER = Panel("Brier score on fresh labels", (0, 0.25), _SECTION)
_CALIBRATION = Panel("Calibration error on fresh labels", (0, 0.25), _SECTION)
_SCORE = Panel("R_gen of the candidates", (), _SECTION)
_KEPT = Panel("What the proposer keeps", (0,), _SECTION)


SYMBOLIC = (
    Metric(
        "proposer/raw",
        "Candidates made in a refresh, before any filter.",
        panel=HIDDEN,
        subject="candidates of a refresh",
    ),
    Metric(
        "proposer/valid_rate",
        "Of these, the share that passed every symbolic check (Task Difficulty and Diversity: 65 to 70%). Low: most "
        "candidates are refused; `proposer/rejected_<reason>` says why.",
        healthy=(0.2, inf),
        cure="Widen the domain's ranges, so that fewer candidates are refused.",
        panel=_CANDIDATES.of("valid"),
        subject="share of valid candidates",
    ),
    Metric(
        "proposer/rejected_<reason>",
        "Share of the candidates refused, by the first check that failed: out_of_range, unsolvable (no target in "
        "range asks for such an expression), trivial (the plain sum or product of the numbers), held_out, duplicate "
        "(of this refresh), archived (selected in an earlier one).",
        panel=HIDDEN,
    ),
    Metric(
        "proposer/eligible_rate",
        "Of the valid candidates, the share that the selection might have taken: 1 but for `hard_band` (Task "
        "Difficulty and Diversity: 1, .447 and .682). Near 0: the gate starves the solver.",
        healthy=(0.1, inf),
        cure="Widen the band (`low`, `high` and `least_diversity` of selection_kwargs).",
        panel=_CANDIDATES.of("eligible"),
        subject="share of eligible candidates",
    ),
    Metric(
        "proposer/refused_<verdict>",
        "Of the valid candidates, the share that `hard_band` refused as too_hard, too_easy or low_diversity.",
        panel=HIDDEN,
    ),
    Metric(
        "proposer/selected",
        "Candidates that went into the buffer. 0: all were refused, and anchors fill the slots.",
        healthy=(1, inf),
        cure="Raise `candidates`, or widen the band (`low` and `high` of selection_kwargs).",
        panel=HIDDEN,
        subject="candidates selected in a refresh",
    ),
    Metric(
        "proposer/archive_size",
        "Generated problems that novelty is measured against; it grows.",
        panel=_KEPT.of("archive"),
    ),
    Metric(
        "proposer/buffer_size",
        "Generated problems that the solver's batches are drawn from.",
        panel=_KEPT.of("buffer"),
    ),
    Metric(
        "proposer/diversity",
        "Mean distance of the selected to the archive, in [0, 1]. It falls as the archive fills. Near 0: the selected "
        "problems are repeats in the eyes of the distance, as with the 7 features of Task Difficulty and Diversity "
        "from step 30 on.",
        healthy=(0.01, inf),
        trip=(0.001, inf),
        word="novelty",
        cure="Let the proposer tell more problems apart (features: 13), or raise `diversity` or `candidates`.",
        panel=Panel("Diversity of the selected", (0, 0.1), _SECTION, "distance to the archive"),
        subject="diversity of the selected problems",
    ),
    Metric(
        "proposer/least_p",
        "Least estimated solve rate among the selected (Task Difficulty and Diversity, figure 4).",
        panel=_SELECTED.of("least"),
    ),
    Metric(
        "proposer/selected_p",
        "Mean estimated solve rate of the selected.",
        healthy=(0.05, 0.9),
        cure="Move the band (`low` and `high` of selection_kwargs), or ask for another difficulty.",
        panel=_SELECTED.of("mean"),
        subject="estimated solve rate of the selected problems",
    ),
    Metric("proposer/score", "Mean R_gen of the valid candidates.", panel=_SCORE.of("valid candidates")),
    Metric("proposer/selected_score", "Mean R_gen of the selected.", panel=_SCORE.of("selected")),
    Metric(
        "proposer/arm_<arm>",
        "Share of the candidates that an arm, or an action of the policy, made.",
        panel=Panel("Who makes the candidates", SHARE, _SECTION, "<arm>"),
    ),
    Metric(
        "proposer/value_<arm>",
        "A bandit's estimate of an arm: mean reward, in [0, 1].",
        panel=Panel("Estimates of a bandit", SHARE, _SECTION, "<arm>"),
    ),
    Metric(
        "proposer/q_<action>",
        "Probability that the action policy gives an action, mean over the seeds of a refresh, before it learns from "
        "them: whether a trained proposer has moved.",
        panel=Panel("Probabilities of the actions", SHARE, _SECTION, "<action>"),
    ),
    Metric(
        "proposer/policy_entropy",
        "Entropy of the action policy in nats, ln 16 = 2.77 at most.",
        healthy=(0.1, inf),
        cure="Raise `entropy` of the proposer, or lower its `learning_rate`.",
        panel=Panel("Entropy of the action policy (nats)", (0,), _SECTION, "entropy"),
        subject="entropy of the action policy",
    ),
    Metric(
        "proposer/policy_baseline",
        "Moving mean of R_gen that the action policy is compared with.",
        panel=_SCORE.of("policy's baseline"),
    ),
    Metric(
        "proposer/estimate_error",
        "Mean |estimated - measured solve rate| of the problems that were played for the first time. It rises between "
        "two refreshes of the predictor: the estimates are stale.",
        panel=Panel("Estimated against played", (0, 0.2), _SECTION, "mean error"),
    ),
    Metric(
        "proposer/brier_before",
        "Brier score, on freshly measured solve rates, of the estimates that the candidates were selected by.",
        panel=_BRIER.of("before the refresh"),
    ),
    Metric(
        "proposer/calibration_before",
        "Calibration error of these estimates on the fresh rates: mean |p - rate| over tenths of p. High: the "
        "predictor was stale, or badly calibrated.",
        healthy=(-inf, 0.2),
        cure="Label more, and more often (`relabel`, `relabel_every`, `played_labels`).",
        panel=_CALIBRATION.of("before the refresh"),
        subject="calibration error of the estimates",
    ),
    Metric(
        "proposer/bias_before",
        "Mean estimate less mean fresh rate: above 0 where problems are harder than thought.",
        panel=_CALIBRATION.of("bias before the refresh"),
    ),
    Metric(
        "proposer/brier_after",
        "The same score, on the same fresh rates, after the predictor was refitted: by trees and a calibration "
        "that had not seen the problem.",
        panel=_BRIER.of("after it, unseen labels"),
    ),
    Metric(
        "proposer/calibration_after",
        "Calibration error after the predictor was refitted, likewise.",
        panel=_CALIBRATION.of("after it, unseen labels"),
    ),
    Metric(
        "proposer/predictor_auc",
        "AUC of the predictor on the fresh rates, by trees that had not seen the problem.",
        healthy=(0.6, inf),
        cure="Label more candidates (`relabel`, `relabel_samples`, `played_labels`).",
        panel=Panel("AUC of the predictor", (0.5, 1), _SECTION, "AUC"),
        subject="AUC of the predictor",
    ),
    Metric("proposer/labels", "Solve rates that the predictor is fitted to.", panel=_KEPT.of("labels")),
    Metric(
        "proposer/rate_at_<tenth>",
        "Mean measured solve rate of the labels whose estimate, by trees that had not seen them, begins with "
        "0.<tenth>: about 0.<tenth>5 where the predictor is calibrated.",
        panel=HIDDEN,
    ),
)


def cascade(reasons: Sequence[str], verdicts: Sequence[str], arms: Sequence[str]) -> dict[str, Any]:
    """Return the metrics of candidates: number, valid and eligible share, refusals by reason, shares by arm."""
    counts, gate = Counter(reasons), Counter(verdicts)
    made = Counter(name for arm in arms for name in arm.split("+"))
    raw, valid = len(reasons), counts.pop("ok", 0)
    metrics: dict[str, Any] = {"proposer/raw": raw, "proposer/valid_rate": valid / raw}
    metrics |= {f"proposer/rejected_{reason}": count / raw for reason, count in sorted(counts.items())}
    metrics |= {f"proposer/arm_{arm}": count / raw for arm, count in sorted(made.items())}
    if valid:
        metrics["proposer/eligible_rate"] = gate.pop("admitted", 0) / valid
        metrics |= {f"proposer/refused_{verdict}": count / valid for verdict, count in sorted(gate.items())}
    return metrics
