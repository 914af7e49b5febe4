"""A run folder read once into a frozen object; what is missing or damaged is one sentence with file and line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ...contract.frame_metrics import FRAME_METRICS
from ...contract.metric import Metric, for_players, from_json
from ...data.jsonl import json_file, json_lines, json_shape
from ...errors import DataError
from ...games.metrics import METRICS
from ...statistics.bootstrap import Estimate, Interval
from ..critics.win_rates import RATES, matrix_of
from ..players import changes_of_players, single_players
from . import iterated
from .iterated import DAMAGED

HISTOGRAM = "round/solve_rate_histogram"
_ROUND = ("round/", "prover/", "conjecturer/")
_TORN = "if the run was killed in mid-line, remove the line"
_ABSENT = "delete it to report without it"
RATES_OF_PROPOSALS = ("parseable", "in_range", "solvable", "unique", "solve_rate")
_SECRET = ("_token", "api_key", "password")


@dataclass(frozen=True)
class Run:
    """What a run folder holds. metrics: one dict of finite numbers per line of metrics.jsonl, by rising step, of each
    step the last line written (a rollback writes steps again). evaluation: {} if the run was not evaluated. control:
    pass@k without (control) and with (run) a conjecturer and the difference; {} for a run without a control."""

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
    iterations: list[dict[str, Any]] = field(default_factory=list)
    """Of an iterated run (iterated.py)."""
    win_rates: dict[str, Any] = field(default_factory=dict)
    """win_rates.json, if it is there."""

    @cached_property
    def names(self) -> frozenset[str]:
        """What the rounds logged."""
        return frozenset[str]().union(*self.rounds)

    def series(self, metric: str) -> list[tuple[int, float]]:
        """(step, value) wherever the run has the metric, by rising step."""
        rows = self.rounds if metric in self.names else self.others
        return [(int(row["step"]), row[metric]) for row in rows if metric in row]

    @property
    def steps(self) -> list[int]:
        """Steps of the logged rounds."""
        return [int(row["step"]) for row in self.rounds]

    @property
    def per_round(self) -> int:
        """Optimizer steps of a round: logs count steps, and a reader counts rounds."""
        return int(self.config.get("steps_per_round") or 1)

    @property
    def starved(self) -> list[float]:
        """Rounds in which no conjectured problem was played."""
        return [step / self.per_round for step, value in self.series("round/starved") if value > 0]


def load_runs(folders: list[Path]) -> list[Run]:
    """Every folder as a Run, with names that differ (the parent's name is put in front where two are equal)."""
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
    """Read `folder`. run.json and metrics.jsonl must be there, the other files may be absent."""
    if not folder.is_dir():
        raise DataError(f"There is no run folder '{folder}'; pass the output_dir of a run.{_runs_in(folder.parent)}")
    iterated_run = (folder / iterated.LINEAGE).exists()
    for name in ("run.json",) if iterated_run else ("run.json", "metrics.jsonl"):
        if not (folder / name).exists():
            raise DataError(f"'{folder}' is not a run folder: it has no {name}.{_runs_in(folder)}")
    description = json_file(folder / "run.json", DAMAGED, config=dict)
    config = description["config"]
    iterations = iterated.iterations_of(folder) if iterated_run else []
    rounds, others, histograms = _of_iterations(iterations) if iterations else _metrics(folder / "metrics.jsonl")
    samples = iterated.samples_of(folder) if iterations else _rows(folder / "samples.jsonl")
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
        evaluation=_evaluation(folder / "evaluation.json"),
        rollbacks=_rows(folder / "rollbacks.jsonl"),
        metrics=_declared(description.get("metrics"), folder / "run.json"),
        control=_control(folder / "control.json"),
        iterations=iterations,
        win_rates=_win_rates(folder / "win_rates.json"),
    )


def _runs_in(folder: Path) -> str:
    """The run folders in it, as a cure; "" without one."""
    found = sorted(path.parent for path in folder.glob("*/run.json")) if folder.is_dir() else []
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    return f" Runs that are there: {', '.join(map(str, found[:3]))}{more}." if found else ""


def _rows(path: Path) -> list[dict[str, Any]]:
    """The lines of a file; [] if it is not there."""
    return [row for _, row in json_lines(path, _TORN)] if path.exists() else []


def _of_iterations(
    iterations: list[dict[str, Any]],
) -> tuple[list[dict[str, float]], list[dict[str, float]], dict[int, list[int]]]:
    """An iteration as a round."""
    rounds = [
        {"step": one["iteration"], **{name: found.value for name, found in one.items() if isinstance(found, Estimate)}}
        for one in iterations
    ]
    return rounds, [], {}


def _win_rates(path: Path) -> dict[str, Any]:
    """What `eval --task win_rates --output` wrote; {} if it is not there."""
    if not path.exists():
        return {}
    with json_shape(path, "the win rates of `eval --task win_rates`", _ABSENT) as found:
        for rate in RATES:
            matrix_of(found, rate)
    return found


def _declared(written: Any, path: Path) -> list[Metric]:
    """What the run declared of its metrics; what propose-and-solve declares for a run that did not write it down."""
    if written is None:
        return for_players((*FRAME_METRICS, *METRICS), {role: [role] for role in ("prover", "conjecturer")})
    try:
        return [from_json(name, given) for name, given in written.items()]
    except (AttributeError, TypeError, ValueError) as error:
        raise DataError(f"{path}: 'metrics' must hold the declaration of each metric ({error}).") from error


def _metrics(path: Path) -> tuple[list[dict[str, float]], list[dict[str, float]], dict[int, list[int]]]:
    """Lines of rounds, other lines (evaluations, the summary), and histograms by step."""
    rounds: dict[int, dict[str, float]] = {}
    others: dict[int, dict[str, float]] = {}
    histograms: dict[int, list[int]] = {}
    for number, row in json_lines(path, _TORN):
        step = row.get("step")
        if isinstance(step, bool) or not isinstance(step, int):
            raise DataError(f"'{path}', line {number}: `step` is {step!r}; every line needs a whole number.")
        numbers = {name: float(value) for name, value in row.items() if _is_finite_number(value)}
        if not any(name.startswith(_ROUND) for name in row):
            others.setdefault(step, {}).update(numbers)
            continue
        rounds[step] = numbers
        histograms.pop(step, None)
        if row.get(HISTOGRAM) is not None:
            histograms[step] = _counts(row[HISTOGRAM], path, number)
    by_step = [rounds[step] for step in sorted(rounds)]
    return by_step, [others[step] for step in sorted(others)], dict(sorted(histograms.items()))


def _counts(value: Any, path: Path, number: int) -> list[int]:
    if not isinstance(value, list) or len(value) < 2 or not all(_is_finite_number(v) and v >= 0 for v in value):
        raise DataError(f"{path}, line {number}: '{HISTOGRAM}' must be a list of counts, got {value!r}.")
    return [int(v) for v in value]


def _evaluation(path: Path) -> dict[str, Any]:
    """evaluation.json with its intervals read; {} if the file is absent."""
    if not path.exists():
        return {}
    with json_shape(path, "what was measured before and after training", _ABSENT) as raw:
        found: dict[str, Any] = {"difference": {}}
        for when in ("before", "after"):
            side = raw.get(when) or {}
            prover = side.get("prover") or {}
            found[when] = {
                **_figures(side, "prover", path, when),
                **_figures(side, "conjecturer", path, when),
                "by_rung": {
                    int(rung): float(one["pass_at"]["1"]["value"])
                    for rung, one in prover.get("by_rung", {}).items()
                    if "1" in one["pass_at"]
                },
                "problems": prover.get("problems", len(prover.get("correct", []))),
                "n": prover.get("n"),
                "correct": prover.get("correct", []),
                "truncated_rate": prover.get("truncated_rate"),
            }
        for name, value in (raw.get("difference") or {}).items():
            found["difference"][name] = Interval(*_ends(value, path, f"difference.{name}"))
        return {**found, "of_players": changes_of_players(raw)}


def _figures(side: Mapping[str, Any], kind: str, path: Path, when: str) -> dict[str, dict[str, Estimate]]:
    """pass@k of the provers, rates of the conjecturers: of the kind and of each player of a pool."""
    found = {}
    for role in dict.fromkeys((kind, *single_players(side, kind))):
        own, where = side.get(role) or {}, f"{when}.{role}"
        if kind == "prover":
            values = {f"pass@{int(k)}": (value, f"pass_at.{k}") for k, value in own.get("pass_at", {}).items()}
        else:
            values = {name: (own[name], name) for name in RATES_OF_PROPOSALS if own.get(name) is not None}
        found[role] = {
            name: Estimate(*_ends(value, path, f"{where}.{place}")) for name, (value, place) in values.items()
        }
    return found


def _control(path: Path) -> dict[str, Any]:
    """control.json with its intervals read; {} if the file is absent."""
    if not path.exists():
        return {}
    with json_shape(path, "what the control measured", _ABSENT) as raw:
        found: dict[str, Any] = {
            side: {f"pass@{k}": Estimate(*_ends(v, path, f"{side}.prover.pass_at.{k}")) for k, v in rates.items()}
            for side in ("control", "run")
            for rates in [((raw.get(side) or {}).get("prover") or {}).get("pass_at", {})]
        }
        changes = (raw.get("difference") or {}).items()
        return {**found, "difference": {name: Interval(*_ends(v, path, f"difference.{name}")) for name, v in changes}}


def _ends(value: Any, path: Path, where: str) -> tuple[float, float, float]:
    if isinstance(value, dict):
        value = [value.get("value", value.get("difference")), value.get("low"), value.get("high")]
    if not isinstance(value, list) or len(value) != 3 or not all(map(_is_finite_number, value)):
        raise DataError(f"{path}: '{where}' must hold a value and the two ends of its interval, got {value!r}.")
    return float(value[0]), float(value[1]), float(value[2])


def _is_finite_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= 1e308
