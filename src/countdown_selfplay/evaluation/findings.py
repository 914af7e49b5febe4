"""Findings of a report: the verdict in one line, limited to the evidence of the intervals, and problems with their
remedies: metrics outside the declared ranges (docs/metrics.md), lost coverage, rollbacks. They are at the top of the
report and above a run's table on the terminal."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ..contract.metric import UNBOUNDED, Metric, Range, range_text
from ..curriculum import Trip
from ..curriculum.guard import LEAST
from ..data.jsonl import json_file
from ..statistics.bootstrap import Interval, independent_difference
from .load import Run, load_run
from .terminal import before_after_table

BETTER, WORSE, MIXED, UNCLEAR = "better", "worse", "mixed", "no change shown"
UNFINISHED, UNMEASURED = "not finished", "not measured"

FEW = 3
"""Minimum number of logged rounds for a judgement on a run, or on the last fifth of a run."""


def findings(run: Run) -> list[str]:
    """Return a sentence per fault of the run, causes first: unreadable texts, starvation, lost coverage, unplayed
    parts of axes, easy problems, rollbacks, metrics outside a range, no log, pass@k below the control."""
    unread, starved, tripped, rest = list[str](), list[str](), list[str](), list[str]()
    for metric in sorted(run.declared.values(), key=lambda metric: not metric.legible):
        fault = beyond(run, metric)
        if fault is None:
            continue
        if metric.name == "round/starved":
            starved.append(_starved(run, metric, explained=bool(unread)))
        else:
            said = unread if metric.legible else tripped if fault.tripped else rest
            said.append(_sentence(run, metric, fault))
    silent = not run.rounds and run.config.get("logging_strategy") != "no"
    missing = ["No round was logged. Leave `logging_strategy` at steps; the first line follows a round."] * silent
    first = [
        *unread,
        *starved,
        *lost_coverage(run.evaluation),
        *left_parts(run),
        *too_easy(run),
        *(_rolled_back(run, record) for record in run.rollbacks),
    ]
    return [*first, *tripped, *rest, *missing, *cost_of_the_conjecturer(run)]


def summary(folder: Path | str, evaluation: Mapping[str, Any] | None = None) -> str:
    """Return a run's summary: the verdict, a line for each finding, and the table of before and after. `evaluation`:
    the contents of evaluation.json; None reads them."""
    run, path = load_run(Path(folder)), Path(folder) / "evaluation.json"
    found, lines = findings(run), [str(verdict(run))]
    lines += ["", f"Not healthy in {folder}:", *(f"- {sentence}" for sentence in found), ""] if found else []
    if evaluation is None and run.evaluation.get("difference"):
        evaluation = json_file(path)
    return "\n".join([*lines, *([before_after_table(dict(evaluation))] if evaluation else [])])


def healthy_of(run: Run, metric: Metric) -> Range:
    """Return the metric's healthy range in this run; UNBOUNDED for a share that is high by the run's design. Ladders
    (answers in moves, several rungs) and runs that admit unsolvable problems play problems beyond the prover's reach.
    Such problems, and targets that are always or never solved, give groups without a signal."""
    rungs = sum(name.startswith("round/rung_") and name.endswith("_played") for name in run.names)
    ladder = rungs > 1 and any(name.endswith("/moves") for name in run.names)
    beyond_reach = ladder or "round/unsolvable_share" in run.names
    silent = beyond_reach or any(name.startswith("targets/") for name in run.names)
    free = ("/too_hard_share",) * beyond_reach + ("/zero_signal_groups",) * silent
    return UNBOUNDED if metric.name.endswith(free) else metric.healthy


@dataclass(frozen=True)
class Fault:
    """Metric outside its healthy range, with the mean `value` of the last fifth of the rounds (`late`) or of all.
    `tripped`: whether `value` is outside the guard's range too. `lost`: value of the first round, if healthy."""

    value: float
    late: bool
    tripped: bool
    lost: float | None


def beyond(run: Run, metric: Metric) -> Fault | None:
    """Return the Fault of a metric, or None. The mean over the last fifth of the rounds is judged; for a count of
    events, the mean over all rounds. A metric that has come at least half of the way to its healthy range since the
    first fifth has no fault. With fewer than FEW rounds only the guard's range applies (LEAST for legible rates)."""
    event, values = metric.in_a_row is not None, run.series(metric.name)
    end = None if event else mean(run, metric.name, late=True)
    value = mean(run, metric.name) if end is None else end
    if value is None:
        return None
    healthy = healthy_of(run, metric)
    tripped = _distance(value, metric.trip or UNBOUNDED) > 0
    few = len(values) < FEW and not (metric.legible and value < LEAST)
    begun = None if event else mean(run, metric.name, early=True)
    allowed = 0.0 if begun is None or end is None else 0.5 * _distance(begun, healthy)
    if not tripped and (few or _distance(value, healthy) <= allowed):
        return None
    (step, first), *_ = values
    lost = first if step <= 1 and not _distance(first, healthy) else None
    return Fault(value, end is not None, tripped, lost)


def _distance(value: float, bounds: Range) -> float:
    return max(bounds[0] - value, value - bounds[1], 0.0)


def subject(metric: Metric) -> str:
    """Return the name of a metric as the grammatical subject of a sentence."""
    if metric.subject:
        return f"the {metric.subject}"
    role, _, rest = metric.name.rpartition("/")
    return f"{'' if role == 'round' else role} {rest.replace('_', ' ')}".strip()


def lost_coverage(evaluation: Mapping[str, Any]) -> list[str]:
    """Return a sentence if pass@k of the largest k fell in training, by a change whose interval excludes 0."""
    name = max(evaluation.get("difference", {}), key=lambda name: int(name.partition("@")[2]), default=None)
    if name is None or evaluation["difference"][name].high >= 0:
        return []
    change = evaluation["difference"][name]
    before, after = (evaluation[when]["prover"].get(name) for when in ("before", "after"))
    values = f" from {before.value:.3f} to {after.value:.3f}" if before and after else ""
    tries = name.partition("@")[2]
    return [
        f"The prover lost coverage: {name} fell{values} ({change}). "
        f"With {tries} answers each it solves fewer held-out problems than before training. "
        "Raise `prover_entropy_coef`, take the objective `maxrl` or `pass_at_k`, or ask for harder problems."
    ]


KEPT = 0.2
"""Ratio below which a part of an axis is lost: its share of the played problems over its share of the held-out ones.
In a run with anchors in a quarter of the slots, every part stays above the ratio."""
PART = 0.2
"""Least share of the held-out problems that a part must have to be reported."""
_BACK = (
    "Give a share of the slots to the task's own problems (`anchor_fraction`), or take another `conjecturer_reward`."
)


def left_parts(run: Run) -> list[str]:
    """Return a sentence for each property of problems (axis) whose highest or lowest values are too rare in the last
    fifth of the rounds (KEPT): on the range with the most held-out problems. Rungs are not among the axes."""
    rows = _last_fifth(run)
    if not rows or "round/solve_rate_mean" not in run.names:
        return []
    found = []
    for axis, held in run.held_out.items():
        sides = [held, _counts(rows, f"round/{axis}_", "_played")]
        numbered = [value for value in {*sides[0], *sides[1]} if _ends_of(value)]
        values = sorted(numbered, key=lambda value: float(_ends_of(value)[0]))
        parts = [(f"above {_ends_of(low)[-1]}", values[i:]) for i, low in enumerate(values[:-1], 1)]
        parts += [(f"below {_ends_of(high)[0]}", values[:i]) for i, high in enumerate(values[1:], 1)]
        shares = [(_share(sides[0], part), _share(sides[1], part), words) for words, part in parts]
        left = [(held_out, own, words) for held_out, own, words in shares if own < KEPT * held_out >= KEPT * PART]
        if left:
            held_out, own, words = max(left)
            found.append(
                f"The run has left {axis}s {words}: {own:.0%} of its problems in the last fifth of the rounds, "
                f"{held_out:.0%} of the held-out ones. {_BACK}"
            )
    return found


def _counts(rows: Sequence[Mapping[str, float]], start: str, end: str) -> Mapping[str, float]:
    """Return the sums of the counts logged for each value of an axis, whose names lie between `start` and `end`."""
    counts: dict[str, float] = defaultdict(float)
    for row in rows:
        for name, count in row.items():
            if name.startswith(start) and name.endswith(end):
                counts[name[len(start) : len(name) - len(end)]] += count
    return counts


def _share(counts: Mapping[str, float], part: Sequence[str]) -> float:
    return sum(counts.get(value, 0) for value in part) / max(sum(counts.values()), 1)


def _ends_of(value: str) -> list[str]:
    """Return the least and the greatest number in the name of a band such as "13-25"; [] for a word."""
    return re.findall(r"^-?\d+|\d+$", value)


_SLOTS = (("", "conjectured"), ("anchor_", "anchor"))
EASY = 0.8
"""Solve rate above which played problems are too easy: the default of `easy_above`, and end of the healthy range."""


def too_easy(run: Run) -> list[str]:
    """Return a sentence if the played problems (anchors included) have a solve rate above EASY and the held-out ones
    less than half of it."""
    rows = _last_fifth(run)
    pairs = [(f"round/{kind}solve_rate_mean", f"round/{of}_slots") for kind, of in _SLOTS]
    slots = [(row[rate], row[count]) for row in rows for rate, count in pairs if rate in row and count in row]
    held = next((row["eval_pass@1"] for row in reversed(run.others) if "eval_pass@1" in row), None)
    total = math.fsum(count for _, count in slots)
    if held is None or not total or "round/solve_rate_mean" not in run.names:
        return []
    own = math.fsum(rate * count for rate, count in slots) / total
    if own <= EASY or held >= own / 2:
        return []
    return [
        f"What is played is too easy: solve rate {own:.2f} on the run's own problems in the last fifth of the rounds, "
        f"{held:.2f} on held-out ones. {_BACK}"
    ]


def _last_fifth(run: Run) -> list[dict[str, float]]:
    """Return the rows of the last fifth of the rounds; [] if they are fewer than FEW."""
    edge = run.steps[0] + 0.8 * (run.steps[-1] - run.steps[0]) if run.steps else 0.0
    rows = [row for row in run.rounds if row["step"] >= edge]
    return rows if len(rows) >= FEW else []


def cost_of_the_conjecturer(run: Run) -> list[str]:
    """Return a sentence for each pass@k that is higher in the control, by a difference whose interval excludes 0."""
    return [
        f"The conjecturer cost the prover {name}: {change} against the run without it, on as many samples. "
        "Take another `conjecturer_reward`, or train the prover alone (`countdown-selfplay rloo`)."
        for name, change in run.control.get("difference", {}).items()
        if change.high < 0
    ]


_NOT_NEW = "Raise the conjecturer's temperature or entropy coefficient: it repeats itself."
_OF_REASON = {
    **dict.fromkeys(("duplicate", "not_novel"), _NOT_NEW),
    "held_out": "Ask for problems of which there are more: it writes those of the held-out side.",
}
"""Map of a reason of refusal (curriculum/admission.py) to a remedy; for other reasons the metric's remedy applies."""


def _starved(run: Run, metric: Metric, explained: bool) -> str:
    """Return a sentence on starvation with the most frequent reason of refusal. `explained`: whether an earlier
    finding has the remedy for unreadable proposals."""
    share, logged = mean(run, metric.name) or 0.0, len(run.series(metric.name))
    said = f"The conjecturer was starved: in {share:.0%} of {logged} logged rounds none of its problems was played."
    rows = [row for row in run.samples if str(row.get("role")).partition("/")[0] == "conjecturer"]
    counts = Counter(str(row.get("reason")) for row in rows if row.get("reason") not in (None, "ok"))
    if not counts:
        return f"{said} {metric.cure}".rstrip()
    reason, count = counts.most_common(1)[0]
    unread = any(row.get("reason") == reason and row.get("problem") is None for row in rows)
    cure = "" if unread and explained else _OF_REASON.get(reason, metric.cure)
    return f"{said} Of its {len(rows)} logged proposals {count} were refused as `{reason}`. {cure}".rstrip()


def _rolled_back(run: Run, record: Mapping[str, Any]) -> str:
    """Return a sentence on a rollback: the metric, the recorded reason and the guard's advice."""
    at = f"{record['step']:g}" if isinstance(record.get("step"), int | float) else "?"
    name, _, rest = str(record.get("trip", "no reason was written")).partition(" ")
    metric = run.declared.get(name)
    said = f"The collapse guard rolled back at round {at} to {record.get('to', '?')}"
    return f"{said}: {name if metric is None else subject(metric)} {rest}." + (
        "" if metric is None else f" {Trip(name, 0.0, rest).advice}."
    )


def _sentence(run: Run, metric: Metric, fault: Fault) -> str:
    when = "in the last fifth of the rounds" if fault.late else "over the run"
    limits = [
        ("healthy", range_text(healthy_of(run, metric))),
        ("the guard's range", range_text(metric.trip or UNBOUNDED)),
    ]
    listed = "; ".join(f"{name}: {bounds}" for name, bounds in limits[: 1 + fault.tripped] if bounds)
    said, cure = subject(metric), metric.cure
    if metric.legible and fault.lost is not None:
        role = metric.name.rpartition("/")[0]
        cure = f"It was {fault.lost:.3g} in the first round: training lost it. Lower the {role}'s learning rate or "
        cure += "raise its beta."
    return f"{said[:1].upper()}{said[1:]} was {fault.value:.3g} {when} ({listed}). {cure}".rstrip()


def mean(run: Run, metric: str, late: bool = False, early: bool = False) -> float | None:
    """Return the mean of a metric over the logged rounds that have it. `late`: only over the last fifth of the run;
    `early`: only over the first fifth. None if no round has it, or if fewer than FEW rounds of that fifth do."""
    values = run.series(metric)
    if (late or early) and run.steps:
        start, end = run.steps[0], run.steps[-1]
        edge = start + (0.8 if late else 0.2) * (end - start)
        values = [(step, value) for step, value in values if (step >= edge if late else step <= edge)]
        values = values if len(values) >= FEW else []
    return math.fsum(value for _, value in values) / len(values) if values else None


class Judgement(NamedTuple):
    """Verdict on a run. `word`: better, worse, mixed, no change shown, not finished, not measured. `text`: numbers."""

    word: str
    text: str

    def __str__(self) -> str:
        return f"{self.word[:1].upper()}{self.word[1:]}: {self.text}"


def verdict(run: Run) -> Judgement:
    """Return the verdict on the prover before and after training: pass@k of the lowest and the highest k, the control
    if there is one, and the changed rates of the conjecturers."""
    changes = _ends(run.evaluation.get("difference", {}))
    if not changes:
        return _unmeasured(run)
    sides = [run.evaluation[when]["prover"] for when in ("before", "after")]
    parts, word = [], _word(changes)
    for name, change in changes.items():
        before, after = (side.get(name) for side in sides)
        moved = f" from {before.value:.3f} to {after.value:.3f}" if before and after else ""
        done = {1: " rose", -1: " fell", 0: "" if word == UNCLEAR else ": no change shown,"}[sign(change)]
        parts.append(f"{name}{done}{moved} ({change})")
    text = f"{'; '.join(parts)} on {run.evaluation['after']['problems']} held-out problems, against before training."
    if word == UNCLEAR:
        name, least = next(iter(changes.items()))
        text += f" A change in {name} of less than about {(least.high - least.low) / 2:.3f} would not show here."
    return Judgement(word, " ".join(filter(None, (text, _credit(run, word), _conjecturers(run.evaluation)))))


def _conjecturers(evaluation: Mapping[str, Any]) -> str:
    """Return a sentence for each conjecturer with a rate whose interval of change excludes 0; "" without one."""
    said = []
    for role in (role for role in evaluation["after"] if role.startswith("conjecturer")):
        before, after = (evaluation[when].get(role, {}) for when in ("before", "after"))
        moved = {name: independent_difference(before[name], after[name]) for name in after if name in before}
        parts = [
            f"{name.replace('_', ' ')} {'rose' if sign(change) > 0 else 'fell'} from {before[name].value:.3f} to "
            f"{after[name].value:.3f}"
            for name, change in moved.items()
            if sign(change)
        ]
        said += [f"Rates of {role}: {', '.join(parts)}."] * bool(parts)
    return " ".join(said)


def _unmeasured(run: Run) -> Judgement:
    total, last = run.config.get("max_steps"), run.steps[-1] if run.steps else 0
    if not last:
        return Judgement(UNFINISHED, "no round was logged yet.")
    ended = any("train_runtime" in row for row in run.others)
    if ended or not isinstance(total, int) or last >= total:
        return Judgement(
            UNMEASURED,
            "the run has no evaluation before and after training (`eval_problems`); `countdown-selfplay eval` scores "
            "its prover.",
        )
    scores = next((row for row in reversed(run.others) if "eval_pass@1" in row), None)
    said = "" if scores is None else f"; pass@1 was {scores['eval_pass@1']:.3f} at round {int(scores['step'])}"
    return Judgement(UNFINISHED, f"round {last} of {total} is the last one that was logged{said}.")


def _credit(run: Run, word: str) -> str:
    """Return a sentence that compares the run with its control, or advises a control after a gain; else ""."""
    parts = []
    for name, change in _ends(run.control.get("difference", {})).items():
        side = {1: "higher", -1: "lower"}.get(sign(change))
        words = f"{name} is {side} with the conjecturer" if side else f"no difference shown in {name}"
        parts.append(f"{words} ({change})")
    if parts:
        return f"Against the control without a conjecturer: {'; '.join(parts)}."
    if word in (BETTER, MIXED) and any(name.startswith("conjecturer/") for name in run.names):
        return "No control was run: the same command with `--control` says how much of this the conjecturer made."
    return ""


def _ends(changes: Mapping[str, Any]) -> dict[str, Interval]:
    """Return the entries of the lowest and the highest k of {"pass@k": change}."""
    names: Sequence[str] = sorted(changes, key=lambda name: int(name.partition("@")[2]))
    return {name: changes[name] for name in (*names[:1], *names[-1:])}


def sign(change: Interval) -> int:
    """Return the sign of a difference, 0 if the interval contains 0."""
    return (change.low > 0) - (change.high < 0)


def _word(changes: Mapping[str, Interval]) -> str:
    signs = set(map(sign, changes.values()))
    return MIXED if {1, -1} <= signs else BETTER if 1 in signs else WORSE if -1 in signs else UNCLEAR
