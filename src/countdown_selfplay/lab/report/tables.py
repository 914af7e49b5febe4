"""The tables of the page as rows of cells: results with intervals, arms against the first one, health, settings
and differences."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...contract.frame_metrics import FRAME_METRICS
from ...contract.metric import UNBOUNDED, Metric, range_text
from ...errors import DataError
from ...evaluation.findings import beyond, healthy_of, mean, subject
from ...evaluation.load import Run
from ...statistics.bootstrap import Interval
from ..compare import Arm, Comparison, aligned_arms, check_settings, compare_arms, load_result, unknown_settings
from .arms import PLACES, RunArm, arms_of, band_text, over_seeds

_RESAMPLES = 10_000
_ALIKE = 1e-9  # a width that only rounding gives


@dataclass(frozen=True)
class Table:
    """Cells are texts, None, an Estimate, an Interval (coloured if it excludes 0), or one of the dicts that the
    template's macro `cell` knows. The first `labels` columns are text, the others numbers. `groups`: titles over
    equally many columns each."""

    head: Sequence[str]
    rows: Sequence[Sequence[Any]]
    note: str = ""
    labels: int = 1
    groups: Sequence[str] = ()


SETTING = (  # words, config fields: the first that is not None is shown
    ("rounds", ("max_steps",)), ("seed", ("seed",)), ("policies", ("policy_sharing",)),
    ("prover's objective", ("prover_objective",)), ("conjecturer's objective", ("conjecturer_objective",)),
    ("conjecturer's reward", ("conjecturer_reward",)), ("its arguments", ("conjecturer_reward_kwargs",)),
    ("anchor fraction", ("anchor_fraction",)), ("fill", ("fill",)),
    ("prover's learning rate", ("prover_learning_rate", "learning_rate")),
    ("conjecturer's learning rate", ("conjecturer_learning_rate", "learning_rate")),
    ("prover's KL", ("prover_beta", "beta")), ("conjecturer's KL", ("conjecturer_beta", "beta")),
    ("DPO's beta", ("beta",)), ("prover's entropy bonus", ("prover_entropy_coef", "entropy_coef")),
    ("conjecturer's entropy bonus", ("conjecturer_entropy_coef", "entropy_coef")),
    ("answers per problem", ("prover_num_generations", "num_generations")),
    ("micro-batch", ("per_device_train_batch_size",)), ("prover's micro-batches", ("prover_micro_batches",)),
    ("conjecturer's micro-batches", ("conjecturer_micro_batches",)), ("operands", ("operands",)),
    ("greatest operand", ("number_high",)), ("greatest target", ("target_high",)),
    ("prover's prompt", ("prover_prompt",)), ("answer rule", ("answer_rule",)),
    ("length penalty", ("length_penalty",)),
)  # fmt: skip


def results(runs: Sequence[Run]) -> Table | None:
    """The rows of the terminal's table of before and after, runs side by side; None if no run was evaluated."""
    evaluated = [run for run in runs if run.evaluation.get("rows")]
    if not evaluated:
        return None
    rows = []
    for label in dict.fromkeys(label for run in evaluated for label in run.evaluation["rows"]):
        cells = [run.evaluation["rows"].get(label, (None, None, None)) for run in evaluated]
        shown = [dict(zip(("before", "after", "difference"), one, strict=True)) for one in cells]
        rows.append([label, *(shown if len(runs) > 1 else cells[0])])
    head = ["before", "after", "difference"] if len(runs) == 1 else [run.name for run in evaluated]
    return Table(["", *head], rows, _result_note([run.evaluation for run in evaluated]))


def _result_note(evaluated: Sequence[dict[str, Any]]) -> str:
    sizes = {(found["after"]["problems"], found["after"]["n"]) for found in evaluated}
    parts = [f"{problems} held-out problems, {n} answers each" for problems, n in sorted(sizes, key=str) if n]
    note = "; ".join(parts) + ". " if parts else ""
    note += "In brackets 95% intervals; those of pass@k resample problems, paired for differences; "
    note += "the conjecturer's samples before and after are independent. "
    cut = max(found[when]["truncated_rate"] or 0 for found in evaluated for when in ("before", "after"))
    if cut > 0.01:
        note += f"Up to {cut:.1%} of the answers were cut at the token limit and count as wrong."
    return note


def against_control(runs: Sequence[Run]) -> Table | None:
    """pass@k after training without and with a conjecturer, and the paired difference; None without such a run."""
    controlled = [run for run in runs if run.control]
    if not controlled:
        return None
    names = dict.fromkeys(name for run in controlled for name in run.control["difference"])
    sides = [run.control[side] for run in controlled for side in ("control", "run", "difference")]
    rows = [[f"prover {name}", *(side.get(name) for side in sides)] for name in names]
    note = (
        "After training; the run without a conjecturer had as many samples of the prover, the same anchors and the "
        "same start. In brackets 95% intervals, paired over the held-out problems for differences."
    )
    head = ["", *["without", "with", "difference"] * len(controlled)]
    return Table(head, rows, note, groups=[run.name for run in controlled] if len(runs) > 1 else [])


def health(runs: Sequence[Run]) -> Table | None:
    """Mean, maximum and share of rounds above 0 of each metric with a range, a word or a subject, runs side by side
    (Allen and Ståblein, table 4), with the range in which it is healthy and whether the run was."""
    rows, judged = [], False
    for metric in _judged(runs):
        cells: list[Any] = []
        ranges = []
        for run in runs:
            values = [value for _, value in run.series(metric.name)]
            if not values:
                cells += [None, None, None]
                continue
            shown: Any = f"{round(mean(run, metric.name) or 0.0, 3):.4g}"
            declared = run.declared[metric.name]
            bounds = healthy_of(run, declared)
            if bounds != UNBOUNDED:
                ranges.append(range_text(bounds))
                shown = {"text": shown, "tick": beyond(run, declared) is None}
            positive = sum(value > 0 for value in values) / len(run.rounds)
            cells += [shown, f"{round(max(values), 3):.4g}", f"{positive:.0%}"]
        judged = judged or bool(ranges)
        words = subject(metric).removeprefix("the ").removeprefix("share of ")
        name = {"text": words, "hint": definition(metric.name, runs)}
        rows.append([name, {"text": " or ".join(dict.fromkeys(ranges))}, *cells])
    groups = [run.name for run in runs] if len(runs) > 1 else []
    head = ["", "healthy", *["mean", "max", "rounds > 0"] * len(runs)]
    if not judged:
        head, rows = [head[0], *head[2:]], [[row[0], *row[2:]] for row in rows]
    note = (
        "Shares of proposals, problems, answers or rounds, where a row does not say otherwise. Means are over the "
        "rounds that have the value (a starved round has no solve rate); the share of rounds above 0 is of all logged "
        "rounds. ✓: inside the healthy range over the run and in its last fifth; ✗: not."
    )
    return Table(head, rows, note, 1 + judged, groups) if rows else None


def _judged(runs: Sequence[Run]) -> list[Metric]:
    """The rows of the health table: those of the game first, then those of the frame."""
    found = {one.name: one for run in runs for one in run.declared.values() if one.name in run.names}
    frame = {metric.name.replace("{role}", "") for metric in FRAME_METRICS}
    rows = [one for one in found.values() if one.subject or one.word or one.healthy != UNBOUNDED]
    return sorted(rows, key=lambda one: any(one.name.endswith(end) for end in frame))


def definition(metric: str, runs: Sequence[Run]) -> str:
    """The logged name of a metric, its meaning, and the range that the run declared as healthy."""
    declared = next((run.declared[metric] for run in runs if metric in run.declared), None)
    if declared is None:
        return metric
    text, bounds = f"{metric}: {declared.explained}", range_text(declared.healthy)
    return f"{text} Healthy: {bounds}." if bounds else text


def setting(run: Run) -> dict[str, str]:
    """The main settings: word and value."""
    found = {}
    for words, fields in SETTING:
        if not _acts(run, fields[0]):
            continue
        value = next((run.config[name] for name in fields if run.config.get(name) is not None), None)
        if value is not None:
            found[words] = plain(value)
    device = run.environment.get("device")
    return found if device is None else {**found, "device": f"{device} x {run.environment.get('processes', 1)}"}


def _acts(run: Run, field: str) -> bool:
    """Whether a setting is read in the run. An iterated run (it has an `algorithm`) has no loss with a KL, and a
    `beta` under DPO alone; a role that does not play has no settings, but a proposer may be paid by the conjecturer's
    reward without one."""
    algorithm, role = run.config.get("algorithm"), field.partition("_")[0]
    if field == "beta":
        return algorithm in ("dpo", "step_dpo")
    if field.endswith("_beta") and algorithm is not None:
        return False
    kinds = {metric.name.partition("/")[0] for metric in run.metrics}
    if role not in ("prover", "conjecturer") or role in kinds or not kinds:
        return True
    return field.startswith("conjecturer_reward") and run.config.get("proposer") is not None


def whole_config(run: Run) -> Table:
    """Every setting and version."""
    pairs = [*sorted(run.config.items()), *sorted(run.environment.items())]
    return Table(["field", "value"], [(name, plain(value)) for name, value in pairs], labels=2)


def differences(runs: Sequence[Run]) -> Table:
    """Settings in which the runs differ, one column per arm; what differs within an arm (seeds) in one cell."""
    arms = arms_of(runs)
    rows = []
    for name in sorted({name for run in runs for name in run.config} - PLACES):
        cells = [[plain(run.config[name]) if name in run.config else "–" for run in arm.runs] for arm in arms]
        if len({value for cell in cells for value in cell}) > 1:
            rows.append([name, *(", ".join(dict.fromkeys(cell)) for cell in cells)])
    if not rows:
        return Table([], [], "All runs have the same settings.")
    return Table(["field", *(arm.name for arm in arms)], rows, labels=len(arms) + 1)


def plain(value: Any) -> str:
    """A config value in one line."""
    if value is None:
        return "none"
    return value if isinstance(value, str) else json.dumps(value, default=str)


def compared(arms: Sequence[RunArm]) -> tuple[Comparison | str | None, str]:
    """pass@k after training of every arm against the first, on the problems that all were evaluated on, and what is to
    be said of these problems; a sentence where the evaluations cannot be compared, None with one arm, or if
    evaluations hold no problem keys."""
    if len(arms) < 2 or not all(run.evaluation for arm in arms for run in arm.runs):
        return None, ""
    try:
        loaded = [Arm(arm.name, [load_result(str(run.path)) for run in arm.runs]) for arm in arms]
    except DataError:  # written before the keys were: before and after are shown, arms are not compared
        return None, ""
    differing = check_settings(loaded)
    if differing is not None:
        return f"{differing}: these arms are not compared.", ""
    try:
        aligned = aligned_arms(loaded, common=True)
    except DataError as error:
        return str(error), ""
    sizes = [len(result.keys) for arm in loaded for result in arm.results]
    common = len(aligned[0].results[0].keys)
    said = ""
    if any(size != common for size in sizes):
        said = (
            f"The runs were evaluated on different problems ({min(sizes)} to {max(sizes)} of them): compared are the "
            f"{common} that all have in common."
        )
    return compare_arms(aligned, resamples=_RESAMPLES), " ".join([said, *unknown_settings(loaded)]).strip()


def comparison(found: Comparison | str | None, said: str = "") -> Table | None:
    """The table of what `compared` found."""
    if not isinstance(found, Comparison):
        return None if found is None else Table([], [], found)
    rows = []
    for d in found.differences:
        first, own = found.values[found.arms[0], d.k], found.values[d.arm, d.k]
        wide = f"[{d.bonferroni.low:+.3f}, {d.bonferroni.high:+.3f}]"
        rows.append([f"{d.arm} pass@{d.k}", first, own, d.percentile, wide, f"{d.p_holm:.3f}"])
    head = ["", found.arms[0], "arm's", "difference", f"Bonferroni ({len(rows)})", "p (Holm)"]
    return Table(head, rows, " ".join(filter(None, (said, *found.notes()))))


def gains(arms: Sequence[RunArm]) -> Table | None:
    """What training changed in pass@k, mean over the seeds of each arm; None if no arm has several evaluated seeds."""
    several = [arm for arm in arms if len(arm.runs) > 1 and all(run.evaluation for run in arm.runs)]
    names = dict.fromkeys(name for arm in several for run in arm.runs for name in run.evaluation["difference"])
    rows = []
    for name in names:
        cells: list[Interval | None] = []
        for arm in several:
            known = [run.evaluation["difference"][name] for run in arm.runs if name in run.evaluation["difference"]]
            cells.append(_over_seeds(known) if len(known) == len(arm.runs) else None)
        rows.append([name, *cells])
    note = band_text(several).replace("Bold: mean over the seeds of an arm; shaded", "In brackets")
    return Table(["after minus before", *(arm.name for arm in several)], rows, note) if rows else None


def _over_seeds(known: Sequence[Interval]) -> Interval:
    """The mean of what single seeds gained with its interval; of seeds that agree, whose spread is unknown, the
    intervals over problems put together."""
    found = over_seeds([one.difference for one in known])
    if found.high - found.low > _ALIKE:
        return Interval(found.value, found.low, found.high)
    return Interval(found.value, min(one.low for one in known), max(one.high for one in known))
