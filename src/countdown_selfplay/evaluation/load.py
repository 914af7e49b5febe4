"""Run folder, read once into a frozen object. Errors name file and line. In an iterated run (Wang et al.) the
iterations take the place of the rounds."""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from ..contract.metric import SHARE, UNBOUNDED, Metric, Panel, declaration_of, from_json
from ..contract.trainer_metrics import LOG_METRICS, TRAINER_METRICS
from ..data.jsonl import json_file, json_lines, json_shape
from ..data.run_files import runs_in
from ..errors import DataError
from ..games.metrics import CRITIC_METRICS, METRICS
from ..guides.judge import Judge
from ..options import is_number, is_whole
from ..packages import CALLED, attribute_of
from ..proposers.metrics import PROPOSER_METRICS
from ..statistics.bootstrap import Estimate, Interval
from .terminal import before_after_rows, estimate, interval, rates

HISTOGRAM = "round/solve_rate_histogram"
OWN = "Metrics of the game, its proposer and guide"
"""Heading of the report's charts of metrics without a declared panel."""
_TORN = "if the run was killed in mid-line, remove the line"
_ABSENT = "delete it to report without it"
_SECRET = ("_token", "api_key", "password")
_ANY_REWARD = (
    Metric("{role}/reward", "Mean reward.", panel=Panel("Reward", (), OWN)),
    Metric("{role}/reward_std", "Standard deviation of the rewards.", panel=Panel("Spread of the reward", (0,), OWN)),
)
"""Metrics of roles for which the game declares none of these."""


@cache
def shipped() -> list[Metric]:
    """Return the metric declarations of the library, for logged names that run.json does not declare (times,
    evaluations) and for runs that declare none."""
    games = (*METRICS, *CRITIC_METRICS, *PROPOSER_METRICS, *Judge.metrics)
    metrics = (*games, *TRAINER_METRICS, *LOG_METRICS, *_ANY_REWARD)
    return list({metric.name: metric for metric in metrics}.values())


LINEAGE = "iterated.json"
"""File that identifies the folder of an iterated run."""
DAMAGED = "the run folder is damaged"


@dataclass(frozen=True)
class Run:
    """Contents of a run folder. rounds: one dict of finite numbers per round in metrics.jsonl, by ascending step, the
    last line of each step (a rollback writes steps again). evaluation: {} without one. control: pass@k without
    (control) and with (run) a conjecturer and the difference; {} without a control."""

    path: Path
    name: str
    started: str
    config: dict[str, Any]
    environment: dict[str, Any]
    rounds: list[dict[str, float]]
    histograms: dict[int, list[int]]
    others: list[dict[str, float]]
    samples: list[dict[str, Any]] = field(default_factory=list)
    evaluation: dict[str, Any] = field(default_factory=dict)
    rollbacks: list[dict[str, Any]] = field(default_factory=list)
    metrics: list[Metric] = field(default_factory=list)
    control: dict[str, Any] = field(default_factory=dict)
    held_out: dict[str, dict[str, int]] = field(default_factory=dict)
    """Number of held-out problems by axis and value; rungs are left out."""
    iterations: list[dict[str, Any]] = field(default_factory=list)
    """Metrics of an iterated run's iterations; [] for other runs."""

    @cached_property
    def names(self) -> frozenset[str]:
        """Names of the metrics that the rounds logged."""
        return frozenset[str]().union(*self.rounds)

    @cached_property
    def declared(self) -> dict[str, Metric]:
        """Declarations of the logged metrics by name, in the order of the declarations: the run's, then the library's.
        A metric that the run does not declare has no healthy range, unless the run declares nothing."""
        others = shipped()
        if self.metrics:
            others = [replace(metric, healthy=UNBOUNDED, trip=None, in_a_row=None) for metric in others]
        known = [*self.metrics, *others]
        places = {metric.name: i for i, metric in reversed(list(enumerate(known)))}
        patterns = [i for i, metric in enumerate(known) if re.search(r"[{<]", metric.name)]
        changes: list[tuple[int, list[tuple[int, str]], Metric]] = []
        for name in self.names.union(*self.others) - {"step"}:
            fits = [places[name]] if name in places else [i for i in patterns if declaration_of(name, [known[i]])]
            metric = declaration_of(name, [known[fits[0]]]) if fits else None
            if metric is not None:
                changes.append((fits[0], _natural(name), metric))
        players = {one.removesuffix("/completion_length") for one in self.names if one.endswith("/completion_length")}
        return {metric.name: _with_panel(metric, players) for *_, metric in sorted(changes, key=lambda one: one[:2])}

    def series(self, metric: str) -> list[tuple[int, float]]:
        """Return (round, value) of a metric, by ascending round."""
        rows = self.rounds if metric in self.names else self.others
        return [(int(row["step"]), row[metric]) for row in rows if metric in row]

    @property
    def steps(self) -> list[int]:
        """Numbers of the logged rounds."""
        return [int(row["step"]) for row in self.rounds]

    @property
    def starved(self) -> list[int]:
        """Rounds without a conjectured problem."""
        return [step for step, value in self.series("round/starved") if value > 0]


def load_runs(folders: list[Path]) -> list[Run]:
    """Load each folder as a Run. If two names are equal, all get the parent folder's name as a prefix."""
    if not folders:
        raise DataError("A report needs at least one run folder.")
    runs = [load_run(Path(folder)) for folder in folders]
    names = [run.name for run in runs]
    if len(set(names)) < len(names):
        names = [f"{run.path.resolve().parent.name}/{run.name}" for run in runs]
    if len(set(names)) < len(names):
        names = [f"{name} ({i})" for i, name in enumerate(names, start=1)]
    return [replace(run, name=name) for run, name in zip(runs, names, strict=True)]


def load_run(folder: Path) -> Run:
    """Load a run. Raises DataError if run.json or (unless iterated) metrics.jsonl is absent, or a file is damaged."""
    if not os.path.isdir(folder):  # noqa: PTH112 -- pathlib raises for a name that is too long
        raise DataError(f"There is no run folder '{folder}'; pass the output_dir of a run.{runs_in(folder.parent)}")
    iterated_run = (folder / LINEAGE).exists()
    for name in ("run.json",) if iterated_run else ("run.json", "metrics.jsonl"):
        if not (folder / name).exists():
            raise DataError(f"'{folder}' is not a run folder: it has no {name}.{runs_in(folder)}")
    description = json_file(folder / "run.json", DAMAGED, config=dict)
    config = description["config"]
    log = attribute_of(CALLED["iterations"], f"The iterated run in '{folder}'") if iterated_run else None
    iterations = log.iterations_of(folder) if log else []
    rounds, others, histograms = ([], [], {}) if iterations else _metrics(folder / "metrics.jsonl")
    for one in iterations:  # iterations as rounds
        rates = {name: metric.value for name, metric in one.items() if isinstance(metric, Estimate)}
        rounds.append({"step": one["iteration"], **rates})
    samples = log.samples_of(folder) if log and iterations else _rows(folder / "samples.jsonl")
    environment = description.get("environment")
    return Run(
        path=folder,
        name=str(description.get("name") or folder.resolve().name),
        started=str(description.get("started") or ""),
        config={name: value for name, value in config.items() if not name.endswith(_SECRET)},
        environment=environment if isinstance(environment, dict) else {},
        rounds=rounds,
        histograms=histograms,
        others=others,
        samples=samples,
        evaluation=read_object(
            folder / "evaluation.json", "the figures before and after training, with their intervals", _evaluation
        ),
        rollbacks=_rows(folder / "rollbacks.jsonl"),
        metrics=_written(description.get("metrics"), folder / "run.json"),
        control=read_object(folder / "control.json", "the figures of run and control, with their intervals", _control),
        iterations=iterations,
        held_out={a: counts for a, counts in (description.get("held_out") or {}).items() if isinstance(counts, dict)},
    )


def _rows(path: Path) -> list[dict[str, Any]]:
    return [row for _, row in json_lines(path, _TORN)] if path.exists() else []


def _with_panel(metric: Metric, players: Iterable[str]) -> Metric:
    """Return the metric with a panel: its own, or one named after it, which the players of a pool share."""
    if metric.panel is not None:
        return metric
    player = next((one for one in players if metric.name.startswith(f"{one}/")), "")
    rest = metric.name.removeprefix(f"{player}/").replace("_", " ").replace("/", " ")
    view = SHARE if rest.endswith((" rate", " share")) else ()
    return replace(metric, panel=Panel(f"{rest[:1].upper()}{rest[1:]}", view, OWN, player or rest))


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part) if part.isdigit() else 0, part) for part in re.split(r"(\d+)", name)]


def _written(written: Any, path: Path) -> list[Metric]:
    try:
        return [from_json(name, given) for name, given in (written or {}).items()]
    except (AttributeError, TypeError, ValueError) as error:
        raise DataError(f"{path}: 'metrics' must hold the declaration of each metric ({error}).") from error


def _metrics(path: Path) -> tuple[list[dict[str, float]], list[dict[str, float]], dict[int, list[int]]]:
    """Return the rows of the rounds, the other rows (evaluations, the summary), and the histograms by step."""
    rounds: dict[int, dict[str, float]] = {}
    others: dict[int, dict[str, float]] = {}
    histograms: dict[int, list[int]] = {}
    for number, row in json_lines(path, _TORN):
        step = row.get("step")
        if not is_whole(step):
            raise DataError(f"'{path}', line {number}: `step` is {step!r}; every line needs a whole number.")
        numbers = {name: float(value) for name, value in row.items() if is_number(value)}
        if not any("/" in name and not name.startswith("eval_") for name in row):
            others.setdefault(step, {}).update(numbers)
            continue
        rounds[step] = numbers
        histograms.pop(step, None)
        if row.get(HISTOGRAM) is not None:
            histograms[step] = _counts(row[HISTOGRAM], path, number)
    by_step = [rounds[step] for step in sorted(rounds)]
    return by_step, [others[step] for step in sorted(others)], dict(sorted(histograms.items()))


def _counts(value: Any, path: Path, number: int) -> list[int]:
    if not isinstance(value, list) or len(value) < 2 or not all(is_number(v) and v >= 0 for v in value):
        raise DataError(f"{path}, line {number}: '{HISTOGRAM}' must be a list of counts, got {value!r}.")
    return [int(v) for v in value]


def read_object(path: Path, what: str, take: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    """Read a file's JSON object and convert it with `take`; {} without a file. Raises DataError for a wrong form."""
    if not path.is_file():
        return {}
    with json_shape(path, what, _ABSENT) as raw:
        return take(raw)


def _evaluation(raw: Mapping[str, Any]) -> dict[str, Any]:
    evaluation: dict[str, Any] = {when: _side(raw.get(when) or {}) for when in ("before", "after")}
    return {**evaluation, "difference": _changes(raw), "rows": before_after_rows(raw)}


def _side(side: Mapping[str, Any]) -> dict[str, Any]:
    """Return one side (before or after) of evaluation.json: pass@k or rates by player, and facts on the answers."""
    prover = side.get("prover") or {}
    figures: dict[str, Any] = {"prover": {}, "conjecturer": {}}
    for role, of_role in side.items():
        if role.startswith("prover"):
            figures[role] = _pass_at(of_role)
        elif role.startswith("conjecturer"):
            figures[role] = {name: estimate(of_role[name]) for name in rates(of_role)}
    rungs = {rung: one["pass_at"] for rung, one in prover.get("by_rung", {}).items()}
    facts: dict[str, Any] = {name: prover.get(name) for name in ("n", "truncated_rate")}
    correct = prover.get("correct", [])
    by_rung = {int(rung): float(one["1"]["value"]) for rung, one in rungs.items() if "1" in one}
    problems = prover.get("problems", len(correct))
    return {**figures, **facts, "by_rung": by_rung, "correct": correct, "problems": problems}


def _control(raw: Mapping[str, Any]) -> dict[str, Any]:
    sides = {side: _pass_at((raw.get(side) or {}).get("prover") or {}) for side in ("control", "run")}
    return {**sides, "difference": _changes(raw)}


def _pass_at(prover: Mapping[str, Any]) -> dict[str, Estimate]:
    return {f"pass@{int(k)}": estimate(value) for k, value in prover.get("pass_at", {}).items()}


def _changes(raw: Mapping[str, Any]) -> dict[str, Interval]:
    return {name: interval(value) for name, value in (raw.get("difference") or {}).items()}
