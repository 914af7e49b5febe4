"""Text for the terminal: tables of evaluations and of each player of a pool, and a progress bar."""

import sys
from collections.abc import Mapping
from dataclasses import astuple
from typing import Any, TextIO

from tqdm import tqdm

from ..options import is_number
from ..statistics.bootstrap import Estimate, Interval, independent_difference, paired_bootstrap
from .summary import rungs_text

_PAUSE = 30.0  # seconds between two updates where stderr is a file or a pipe
RESAMPLES = 2_000
"""Bootstrap resamples for the interval of one player."""
Cell = Estimate | Interval | str | None
"""Cell of a table: text is printed as it is, None is a missing value."""


def control_table(result: dict[str, Any]) -> str:
    """Format the prover's pass@k without and with a conjecturer, with 95% intervals; `result` as in control.json."""
    return _table(("without", "with"), _prover_rows(result, "control", "run"))


def before_after_table(result: Mapping[str, Any]) -> str:
    """Format all roles' values before and after training, with 95% intervals; `result` as in evaluation.json."""
    return _table(("before", "after"), before_after_rows(result))


def before_after_rows(result: Mapping[str, Any]) -> dict[str, tuple[Cell, Cell, Cell]]:
    """Return (before, after, difference) of all values of evaluation.json that are complete, by label."""
    rows: dict[str, tuple[Cell, Cell, Cell]] = {}
    sides: list[dict[str, Any]] = [dict(result.get(when) or {}) for when in ("before", "after")]
    if "difference" in result:
        pool = changes_of_players(result)
        rows |= _prover_rows(result, "before", "after", "all provers:" if pool else "prover")
        for player, changes in pool.items():
            for name, moved in changes.items():
                before, after = (estimate(side[player]["pass_at"][name.partition("@")[2]]) for side in sides)
                rows[f"{player} {name}"] = (before, after, moved)
        rows |= _rung_rows(result)
    for role in (*(single_players(sides[1], "conjecturer") or ["conjecturer"]), "guide") if sides[1] else ():
        figures = [side.get(role, {}) for side in sides]
        for name in rates(*figures):
            a, b = (None if figure.get(name) is None else estimate(figure[name]) for figure in figures)
            change = None if a is None or b is None else independent_difference(a, b)
            rows[f"{role} {name.replace('_', ' ')}"] = (a, b, change)
    return rows


def _table(sides: tuple[str, str], rows: Mapping[str, tuple[Cell, Cell, Cell]]) -> str:
    shown = [(label, *("-" if cell is None else str(cell) for cell in cells)) for label, cells in rows.items()]
    return aligned([("", *sides, "difference"), *shown])


def _prover_rows(
    result: Mapping[str, Any], first: str, second: str, who: str = "prover"
) -> dict[str, tuple[Cell, Cell, Cell]]:
    a, b = (result[side]["prover"]["pass_at"] for side in (first, second))
    change = result["difference"]
    return {
        f"{who} pass@{k}": (estimate(a[k]), estimate(b[k]), interval(change[f"pass@{k}"]))
        for k in a
        if f"pass@{k}" in change
    }


def _rung_rows(result: Mapping[str, Any]) -> dict[str, tuple[Cell, Cell, Cell]]:
    """Return the rows of a prover's evaluations by rung: the ladder and each rung, for the lowest and the highest k;
    rungs without a right answer before and after share one row."""
    changes, silent = result.get("difference_by_rung", {}), list[int]()
    before, after = (result[when]["prover"] for when in ("before", "after"))
    rows: dict[str, tuple[Cell, Cell, Cell]] = {}
    for name in sorted(changes, key=lambda name: name != "ladder"):  # the ladder first
        pair = [side["ladder"] if name == "ladder" else side["by_rung"][name] for side in (before, after)]
        if name != "ladder" and not any(any(side["correct"]) for side in pair):
            silent.append(int(name))
            continue
        label = f"rungs {rungs_text(pair[0]['rungs'])}" if name == "ladder" else f"rung {name}"
        for k in dict.fromkeys((min(changes[name], key=int), max(changes[name], key=int))):
            first, second = (estimate(side["pass_at"][k]) for side in pair)
            rows[f"prover pass@{k}, {label}"] = (first, second, interval(changes[name][k]))
    named = f"rung{'s' * (len(silent) > 1)} {rungs_text(silent)}"
    return rows | ({f"prover, {named}": ("0", "0", "")} if silent else {})


def rates(*figures: Mapping[str, Any]) -> list[str]:
    """Return the names of the estimates in the results of conjecturers, in order."""
    return list(dict.fromkeys(n for side in figures for n, v in side.items() if isinstance(v, dict) and "low" in v))


def aligned(rows: list[tuple[str, ...]]) -> str:
    """Pad columns to their widest cell, with a rule under the header."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "-" * (sum(widths) + 2 * len(widths) - 2), *lines[1:]])


def estimate(value: Any) -> Estimate:
    """Read a value and its interval from a list or an object. Raises ValueError for anything else."""
    names = ("value", "low", "high")
    three: list[Any] = [value.get(name) for name in names] if isinstance(value, dict) else list(value)
    if len(three) != 3 or not all(is_number(one) for one in three):
        raise ValueError(f"{value!r} is no value with the two ends of its interval")
    return Estimate(*map(float, three))


def interval(value: Any) -> Interval:
    """Read a difference as `estimate` reads a value."""
    return Interval(*astuple(estimate(value)))


def single_players(side: Mapping[str, Any], kind: str) -> list[str]:
    """Return the names of a pool's players, such as `prover/0`, in order; [] if the role has one player."""
    return sorted((name for name in side if name.startswith(f"{kind}/")), key=lambda name: (len(name), name))


def changes_of_players(result: Mapping[str, Any]) -> dict[str, dict[str, Interval]]:
    """Return the changes of each prover of a pool, {prover: {"pass@k": after - before}} for the lowest and the highest
    k, with 95% intervals paired over problems; {} for one prover. `result`: as in evaluation.json."""
    before, after = result.get("before") or {}, result.get("after") or {}
    changes: dict[str, dict[str, Interval]] = {}
    for player in single_players(after, "prover"):
        if player not in before:
            continue
        a, b = before[player], after[player]
        ks = sorted(map(int, b["pass_at"]))
        changes[player] = {
            f"pass@{k}": paired_bootstrap(a["correct"], b["correct"], a["n"], k=k, resamples=RESAMPLES)
            for k in dict.fromkeys((ks[0], ks[-1]))
        }
    return changes


def duration(seconds: float) -> str:
    """Format seconds as "40 s", "3 min", "2 h 5 min"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


class ProgressLine(tqdm):
    """Progress bar of tqdm on stderr, called as (done, total); a context manager. It is redrawn on a terminal;
    in a file it is written every 30 seconds, after a carriage return. `enabled`: False on all processes but one, and
    under --disable_tqdm."""

    def __init__(self, label: str, unit: str = "answers", enabled: bool = True, stream: TextIO | None = None) -> None:
        stream = sys.stderr if stream is None else stream
        pause = 0.2 if stream.isatty() else _PAUSE
        how = {"mininterval": pause, "delay": pause, "miniters": 1, "leave": None}
        super().__init__(desc=label, unit=f" {unit}", disable=not enabled, file=stream, **how)

    def __call__(self, done: int, total: int) -> None:
        self.total = total
        self.update(done - self.n)


def cells(figures: dict[str, float] | None) -> tuple[str, str]:
    """Format an estimate and its interval for a table."""
    if figures is None:
        return "-", ""
    return f"{figures['value']:.4f}", f"[{figures['low']:.4f}, {figures['high']:.4f}]"
