"""Tables of the page as rows of cells: results with intervals, comparison of arms, health, settings, differences."""

import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ...contract.metric import UNBOUNDED, Metric, range_text
from ...contract.trainer_metrics import TRAINER_METRICS
from ...errors import DataError
from ...evaluation.findings import beyond, healthy_of, mean, subject
from ...evaluation.load import Run
from ...statistics.bootstrap import Estimate, Interval
from ..compare import Arm, Comparison, aligned_arms, check_settings, compare_arms, load_result, unlike_precisions
from .charts import PLACES, RunArm, arms_of, band_text, declared_in, over_seeds

_ALIKE = 1e-9  # a width that only rounding gives


@dataclass(frozen=True)
class Table:
    """Cells are texts, None, an Estimate, an Interval (coloured if it excludes 0), or a dict of the macro `cell`.
    The first `labels` columns are text, the others numbers. `groups`: titles over equally many columns each."""

    head: Sequence[str]
    rows: Sequence[Sequence[Any]]
    note: str = ""
    labels: int = 1
    groups: Sequence[str] = ()


SETTING = (
    "max_steps", "seed", "policy_sharing", "prover_objective", "conjecturer_objective", "conjecturer_reward",
    "conjecturer_reward_kwargs", "anchor_fraction", "fill", "learning_rate", "prover_learning_rate",
    "conjecturer_learning_rate", "beta", "prover_beta", "conjecturer_beta", "prover_entropy_coef",
    "conjecturer_entropy_coef", "problems_per_round", "proposals_per_round", "num_generations",
    "prover_num_generations", "per_device_train_batch_size", "operands", "number_high", "target_high", "prover_prompt",
    "answer_rule", "length_penalty",
)  # fmt: skip
"""Fields that the page shows first, if they are set."""
FILTERS = re.compile(r"proposer/(raw|valid_rate|rejected_.*|eligible_rate|refused_.*|selected)")
TIERS = re.compile(r"valid_conjecture_rate|mean_prover_pass_rate|prover_pass_rate_tier_\d+")
WINDOW = 5
"""Rounds at either end of a run that are compared; half of them all in a shorter run."""


def labelled(runs: Sequence[Run], names: Iterable[str], cells: Callable[[str], Sequence[Any]]) -> list[list[Any]]:
    """Return a row for each metric that has a cell: the metric in words, with its definition as a hint, and cells."""
    declared, rows = declared_in(runs), []
    for name in names:
        words = re.sub("^(the )?(share of )?", "", subject(declared[name]))
        rows.append([{"text": words, "hint": definition(name, declared[name])}, *cells(name)])
    return [row for row in rows if any(cell is not None for cell in row[1:])]


def windows(runs: Sequence[Run]) -> Table | None:
    """Return a pool's means over the first and the last WINDOW rounds (Multimodal LLM Self-Play, table 2), by arm,
    those of several seeds as a mean with an interval."""
    arms, width = arms_of(runs), min((width_of(run) for run in runs), default=0)
    names = sorted(name for name in declared_in(runs) if TIERS.fullmatch(name))
    if not width or not any(name.startswith("prover_pass") for name in names):
        return None

    def cells(name: str) -> list[str | Estimate | None]:
        shown: list[str | Estimate | None] = []
        for arm in arms:
            for values in zip(*(ends(run, name, width) for run in arm.runs), strict=True):
                known = [value for value in values if value is not None]
                shown.append(over_seeds(known) if len(known) > 1 else f"{known[0]:.3f}" if known else None)
        return shown

    head = [f"rounds 1 to {width}" if width > 1 else "round 1", f"last {width}"] * len(arms)
    rows, titles = labelled(runs, names, cells), [arm.name for arm in arms] if len(arms) > 1 else []
    return Table(["", *head], rows, f"Means over the rounds. {band_text(arms)}", groups=titles)


def width_of(run: Run) -> int:
    """Return WINDOW, or the largest number of rounds without overlap; 0 for a single round."""
    return min(WINDOW, max(run.steps, default=0) // 2)


def ends(run: Run, metric: str, width: int = WINDOW) -> tuple[float | None, float | None]:
    """Return the metric's mean over the first and over the last `width` rounds, None without values."""
    last, series = max(run.steps, default=0), run.series(metric)
    sides = [v for step, v in series if step <= width], [v for step, v in series if step > last - width]
    first, second = (math.fsum(values) / len(values) if values else None for values in sides)
    return first, second


def filtering(runs: Sequence[Run]) -> Table | None:
    """Return the filter cascade of a symbolic proposer, mean over the refreshes, by run."""

    def cells(name: str) -> list[Any]:
        refreshes = [len(run.series("proposer/raw")) for run in runs]
        totals = [sum(value for _, value in run.series(name)) for run in runs]  # a share that is not logged is 0
        form = ".4g" if name in ("proposer/raw", "proposer/selected") else ".1%"
        texts = [format(total / n, form) if n else None for total, n in zip(totals, refreshes, strict=True)]
        return texts if any(totals) else []

    rows = labelled(runs, filter(FILTERS.fullmatch, declared_in(runs)), cells)
    return Table(["", *(run.name for run in runs)], rows, "Means over the refreshes.") if rows else None


def by_iteration(runs: Sequence[Run]) -> Table | None:
    """Return game success by role and iteration with intervals; None without an iterated run."""
    iterated = [run for run in runs if run.iterations]
    if not iterated:
        return None
    played = [one for run in iterated for one in run.iterations]
    rows = labelled(iterated, declared_in(iterated), lambda name: [one.get(name) for one in played])
    head = [f"iteration {one['iteration']}" for one in played]
    note = "95% intervals over problems; texts that the token budget cut are not counted."
    same = len(iterated) > 1 and len({len(run.iterations) for run in iterated}) == 1
    return Table(["", *head], rows, note, groups=[run.name for run in iterated] if same else [])


def results(runs: Sequence[Run]) -> Table | None:
    """Return the rows of the terminal's table of before and after, by run; None if no run was evaluated."""
    evaluated = [run for run in runs if run.evaluation.get("rows")]
    if not evaluated:
        return None
    rows = []
    for label in dict.fromkeys(label for run in evaluated for label in run.evaluation["rows"]):
        cells = [run.evaluation["rows"].get(label, (None, None, None)) for run in evaluated]
        shown = [dict(zip(("before", "after", "difference"), one, strict=True)) for one in cells]
        rows.append([label, *(shown if len(runs) > 1 else cells[0])])
    head = ["before", "after", "difference"] if len(runs) == 1 else [run.name for run in evaluated]
    sides = [run.evaluation["after"] for run in evaluated if run.evaluation["after"]["n"]]
    sizes = dict.fromkeys(f"{side['problems']} held-out problems, {side['n']} answers each. " for side in sides)
    note = f"{''.join(sizes)}In brackets 95% intervals, paired for differences of pass@k. "
    cut = max(run.evaluation[when]["truncated_rate"] or 0 for run in evaluated for when in ("before", "after"))
    if cut > 0.01:
        note += f"Up to {cut:.1%} of the answers were cut at the token limit and count as wrong."
    return Table(["", *head], rows, note)


def against_control(runs: Sequence[Run]) -> Table | None:
    """Return pass@k after training without and with a conjecturer, paired; None without a control."""
    controlled = [run for run in runs if run.control]
    if not controlled:
        return None
    names = dict.fromkeys(name for run in controlled for name in run.control["difference"])
    sides = [run.control[side] for run in controlled for side in ("control", "run", "difference")]
    rows = [[f"prover {name}", *(side.get(name) for side in sides)] for name in names]
    note = "After training, on as many samples of the prover. In brackets 95% intervals, paired for differences."
    head = ["", *["without", "with", "difference"] * len(controlled)]
    return Table(head, rows, note, groups=[run.name for run in controlled] if len(runs) > 1 else [])


def health(runs: Sequence[Run]) -> Table | None:
    """Return mean, maximum and share of rounds above 0 of each metric with a range, a word or a subject, by run (Allen
    and Ståblein, table 4), with its healthy range and whether the run was in it."""

    def cells(name: str) -> list[Any]:
        ranges, cells_of = list[str](), list[Any]()
        for run in runs:
            values = [value for _, value in run.series(name)]
            if not values:
                cells_of += [None, None, None]
                continue
            shown: Any = f"{round(mean(run, name) or 0.0, 3):.4g}"
            bounds = healthy_of(run, run.declared[name])
            if bounds != UNBOUNDED:
                ranges.append(range_text(bounds))
                shown = {"text": shown, "tick": beyond(run, run.declared[name]) is None}
            positive = sum(value > 0 for value in values) / len(run.rounds)
            cells_of += [shown, f"{round(max(values), 3):.4g}", f"{positive:.0%}"]
        return [{"text": " or ".join(dict.fromkeys(ranges))}, *cells_of]

    rows = labelled(runs, [metric.name for metric in _judged(runs)], cells)
    head = ["", "healthy", *["mean", "max", "rounds > 0"] * len(runs)]
    note = "Means over the rounds that have the value. ✓: healthy over the run and in its last fifth; ✗: not."
    return Table(head, rows, note, 2, [run.name for run in runs] if len(runs) > 1 else []) if rows else None


def _judged(runs: Sequence[Run]) -> list[Metric]:
    """Return the rows of the health table: those of the game first, then the trainer's."""
    metrics = {one.name: one for run in runs for one in run.declared.values() if one.name in run.names}
    trainers = {metric.name.replace("{role}", "") for metric in TRAINER_METRICS}
    rows = [one for one in metrics.values() if one.subject or one.word or one.healthy != UNBOUNDED]
    return sorted(rows, key=lambda one: any(one.name.endswith(end) for end in trainers))


def definition(name: str, metric: Metric) -> str:
    """Return the logged name of a metric, its meaning, and its healthy range."""
    text, bounds = f"{name}: {metric.explained}", range_text(metric.healthy)
    return f"{text} Healthy: {bounds}." if bounds else text


def setting(run: Run) -> dict[str, str]:
    """Return the main settings."""
    texts = {name: plain(run.config[name]) for name in SETTING if run.config.get(name) is not None}
    device = run.environment.get("device")
    return texts if device is None else {**texts, "device": f"{device} x {run.environment.get('processes', 1)}"}


def whole_config(run: Run) -> Table:
    """Return every setting and version."""
    pairs = [*sorted(run.config.items()), *sorted(run.environment.items())]
    return Table(["field", "value"], [(name, plain(value)) for name, value in pairs], labels=2)


def differences(runs: Sequence[Run]) -> Table:
    """Return the settings in which the runs differ, a column per arm; differences within an arm share a cell."""
    arms, rows = arms_of(runs), []
    for name in sorted({name for run in runs for name in run.config} - PLACES):
        cells = [[plain(run.config[name]) if name in run.config else "–" for run in arm.runs] for arm in arms]
        if len({value for cell in cells for value in cell}) > 1:
            rows.append([name, *(", ".join(dict.fromkeys(cell)) for cell in cells)])
    note = "" if rows else "All runs have the same settings."
    return Table(["field", *(arm.name for arm in arms)], rows, note, labels=len(arms) + 1)


def plain(value: Any) -> str:
    """Format a config value in one line."""
    return "none" if value is None else value if isinstance(value, str) else json.dumps(value, default=str)


def compared(arms: Sequence[RunArm]) -> tuple[Comparison | str | None, str]:
    """Compare pass@k after training of every arm with the first, on the common problems, with notes on these; a
    sentence if the evaluations cannot be compared, None with one arm, or if evaluations have no problem keys."""
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
    notes, common = unlike_precisions(loaded), len(aligned[0].results[0].keys)
    if set(sizes) != {common}:
        different = f"on different problems ({min(sizes)} to {max(sizes)} of them)"
        notes.insert(0, f"The runs were evaluated {different}: compared are the {common} that all have in common.")
    return compare_arms(aligned), " ".join(notes)


def comparison(result: Comparison | str | None, note: str = "") -> Table | None:
    """Return the table of `compared`."""
    if not isinstance(result, Comparison):
        return None if result is None else Table([], [], result)
    rows = []
    for d in result.differences:
        first, value = result.values[result.arms[0], d.k], result.values[d.arm, d.k]
        wide = f"[{d.bonferroni.low:+.3f}, {d.bonferroni.high:+.3f}]"
        rows.append([f"{d.arm} pass@{d.k}", first, value, d.percentile, wide, f"{d.p_holm:.3f}"])
    head = ["", result.arms[0], "arm's", "difference", f"Bonferroni ({len(rows)})", "p (Holm)"]
    return Table(head, rows, " ".join((note, *result.notes())).strip())


def gains(arms: Sequence[RunArm]) -> Table | None:
    """Return the change of pass@k by training, mean over an arm's seeds; None without an arm of several."""
    several = [arm for arm in arms if len(arm.runs) > 1 and all(run.evaluation for run in arm.runs)]
    names = dict.fromkeys(name for arm in several for run in arm.runs for name in run.evaluation["difference"])
    rows = []
    for name in names:
        cells: list[Interval | None] = []
        for arm in several:
            known = [run.evaluation["difference"][name] for run in arm.runs if name in run.evaluation["difference"]]
            cells.append(_over_seeds(known) if len(known) == len(arm.runs) else None)
        rows.append([name, *cells])
    return Table(["after minus before", *(arm.name for arm in several)], rows, band_text(several)) if rows else None


def _over_seeds(known: Sequence[Interval]) -> Interval:
    """Return the mean of seeds' gains with its interval; for equal gains the combined intervals over problems."""
    interval = over_seeds([one.difference for one in known])
    if interval.high - interval.low > _ALIKE:
        return Interval(interval.value, interval.low, interval.high)
    return Interval(interval.value, min(one.low for one in known), max(one.high for one in known))
