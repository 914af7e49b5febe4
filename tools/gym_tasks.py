"""The table of reasoning-gym's tasks: which of them `domain: reasoning_gym` plays, at which levels, what they cost.

    python -m tools.gym_tasks [--tasks chain_sum ...] [--again] [--page]

Measures each task and writes src/countdown_selfplay/domains/gym_tasks.json after each, so that a run that was stopped
goes on, then docs/gym_tasks.md; --again measures anew, --page writes the page alone. Of each task:

- its knobs, and of each the highest level that can be played: two problems at every level up to it were made, in
  LIMIT_MS each, and their own answers score 1, with the other knobs at their lowest level or at the same one; then all
  knobs go down together until this holds of some problem of the highest levels, and none takes longer than a deadline;
- 12 problems at the lowest levels, 12 at random ones and 4 at the highest: its own answers score 1, and the first 12
  are the same when they are made again, or the task is refused with that reason;
- the milliseconds of the processor that a problem and a score take (median, and the greatest).
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import time
from datetime import date
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from countdown_selfplay.cli.env import cores
from countdown_selfplay.domains.workers import Unchecked, Workers
from tools.trees import ROOT

TABLE = ROOT / "src" / "countdown_selfplay" / "domains" / "gym_tasks.json"
PAGE = ROOT / "docs" / "gym_tasks.md"
EACH = 12
LIMIT_MS = 1500.0
"""A problem that takes longer to make is too slow for rounds of hundreds."""


def measured(pool: Workers, items: list[tuple[str, list[int], int]]) -> list[Any]:
    """What the worker measures of each (task, levels, seed), or Unchecked."""
    return pool.map([["measure", *item] for item in items])


def playable(found: Any) -> bool:
    """Made in time, and with an answer that scores 1."""
    return isinstance(found, dict) and found["make_ms"] <= LIMIT_MS and found["score"] == 1


def highest_levels(pool: Workers, task: str, knobs: dict[str, int]) -> list[int]:
    """The highest level of each knob that can be played."""
    names, highest = list(knobs), [0] * len(knobs)

    def made(levels: list[int], seeds: int) -> list[bool]:
        return [playable(one) for one in measured(pool, [(task, levels, seed) for seed in range(seeds)])]

    for i, name in enumerate(names):
        for level in range(1, knobs[name]):
            alone = [level if j == i else 0 for j in range(len(names))]
            beside = [level if j == i else min(level, knobs[other] - 1) for j, other in enumerate(names)]
            if not any(all(made(levels, 2)) for levels in [alone, beside][: 1 + (alone != beside)]):
                break
            highest[i] = level
    while any(highest):
        found = measured(pool, [(task, highest, seed) for seed in range(2)])
        too_slow = any(isinstance(one, Unchecked) and one.reason != "error" for one in found)
        if not too_slow and any(map(playable, found)):
            break
        highest = [max(level - 1, 0) for level in highest]
    return highest


def row_of(pool: Workers, task: str, knobs: dict[str, int]) -> dict[str, Any]:
    """What the table says of a task."""
    begin = time.perf_counter()
    lowest, highest, more = [0] * len(knobs), [0] * len(knobs), []
    items = [(task, lowest, seed) for seed in range(EACH)]
    first = measured(pool, items)
    refused = refusal(first, measured(pool, items) if all(map(playable, first)) else [])
    if refused is None:
        highest, generator = highest_levels(pool, task, knobs), random.Random(task)
        more = [(task, [generator.randint(0, level) for level in highest], EACH + i) for i in range(EACH)]
        more += [(task, highest, 2 * EACH + i) for i in range(4)]
        first += measured(pool, more)
        refused = refusal(first, [])
    made = [one for one in first if isinstance(one, dict)]
    row: dict[str, Any] = {
        "knobs": {name: [high, count] for high, (name, count) in zip(highest, knobs.items(), strict=True)},
        "refused": refused,
        "problems": len(made),
        "of": len(items) + len(more),
        "right": sum(one["score"] == 1 for one in made),
    }
    for what in ("make_ms", "score_ms"):
        times = [one[what] for one in made]
        row[what] = [round(median(times), 3), round(max(times), 3)] if times else None
    return row | {"seconds": round(time.perf_counter() - begin, 1)}


def refusal(first: list[Any], again: list[Any]) -> str | None:
    """Why a task is not played, or None."""
    lowest = [one for one in first[:EACH] if isinstance(one, dict)]
    slow = sum(one["make_ms"] > LIMIT_MS for one in lowest)
    if len(lowest) < EACH or slow:
        failed = next((one for one in first[:EACH] if isinstance(one, Unchecked)), Unchecked("too slow"))
        count = EACH - len(lowest) + slow
        return f"{count} of {EACH} problems at its lowest levels are not made or scored in time: {said(failed)}"
    made = [one for one in first if isinstance(one, dict)]
    answers = [one for one in made if one["answer"] is not None]
    if len(answers) < len(made):
        return f"{len(made) - len(answers)} of {len(made)} problems come without an answer to them"
    wrong = [one["score"] for one in made if one["score"] < 1]
    if wrong:
        return (
            f"{len(wrong)} of {len(made)} answers that it gives itself score less than 1, the least {min(wrong):.3g}"
        )
    both = [(a, b) for a, b in zip(first, again, strict=False) if isinstance(a, dict) and isinstance(b, dict)]
    changed = sum((a["question"], a["answer"]) != (b["question"], b["answer"]) for a, b in both)
    return f"{changed} of {len(both)} problems differ when they are made again" if changed else None


def said(failed: Unchecked) -> str:
    """In a few words."""
    return " ".join(failed.detail.split())[:100] if failed.detail else failed.reason.replace("_", " ")


def page(table: dict[str, Any]) -> str:
    """docs/gym_tasks.md."""
    tasks = table["tasks"]
    played = {task: row for task, row in tasks.items() if not row["refused"]}
    lines = [
        "# Tasks of reasoning-gym",
        "",
        f"What `domain: reasoning_gym` ([domains](domains.md)) plays: {len(played)} of the {len(tasks)} tasks of "
        f"reasoning-gym {table['reasoning_gym']}.",
        f"Made by `python -m tools.gym_tasks` on {table['machine']}, {table['date']}, in {table['seconds']:.0f} s: of "
        f"each task up to {2 * EACH + 4} problems,",
        f"{EACH} at the lowest levels, {EACH} at random ones and 4 at the highest. Of each setting the "
        "highest level that can be played;",
        f"after the stroke that of the package, where it is higher: a problem there takes longer than "
        f"{LIMIT_MS / 1000:g} s, or is not made.",
        "Times are milliseconds of the processor: the median of the problems, and the greatest.",
        "",
        "| task | settings: levels from 0 to | a problem | a score |",
        "|---|---|---|---|",
    ]
    for task, row in played.items():
        knobs = ", ".join(
            f"{name} {high}" + (f"/{count - 1}" if high < count - 1 else "")
            for name, (high, count) in row["knobs"].items()
        )
        lines.append(f"| {task} | {knobs or 'none: no proposals'} | {_ms(row['make_ms'])} | {_ms(row['score_ms'])} |")
    lines += ["", "## Refused", "", "| task | settings | why |", "|---|---|---|"]
    for task, row in tasks.items():
        if row["refused"]:
            lines.append(f"| {task} | {', '.join(row['knobs'])} | {row['refused']} |")
    return "\n".join(lines) + "\n"


def _ms(times: list[float]) -> str:
    return " to ".join(f"{one:.3g}" if one < 100 else f"{one:.0f}" for one in times)


def write(table: dict[str, Any], path: Path) -> None:
    """One task a line."""
    rows = ",\n".join(f"{json.dumps(task)}: {json.dumps(row)}" for task, row in sorted(table["tasks"].items()))
    head = ",\n".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in table.items() if name != "tasks")
    path.write_text(f'{{{head},\n"tasks": {{\n{rows}\n}}}}\n', encoding="utf-8")


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.gym_tasks", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--tasks", nargs="+", help="these alone")
    parser.add_argument("--again", action="store_true", help="measure anew what is known")
    parser.add_argument("--page", action="store_true", help="write the page alone")
    parser.add_argument("--output", type=Path, default=TABLE, help="the JSON file")
    parser.add_argument("--markdown", type=Path, default=PAGE, help="the page")
    options = parser.parse_args(argv)
    if not options.page:
        measure(options)
    options.markdown.write_text(page(json.loads(options.output.read_text(encoding="utf-8"))), encoding="utf-8")


def measure(options: argparse.Namespace) -> None:
    """Measure what is asked for and not known yet."""
    installed = version("reasoning-gym")
    table = json.loads(options.output.read_text(encoding="utf-8")) if options.output.exists() else {}
    if table.get("reasoning_gym") != installed:
        machine = f"{cores()} CPU cores ({platform.machine()})"
        table = {"reasoning_gym": installed, "machine": machine, "date": "", "seconds": 0.0, "tasks": {}}
    pool = Workers("countdown_selfplay.domains.gym_worker:run", processes=2, deadline=6.0, attempts=1, straggler=60.0)
    try:
        (known,) = pool.map([["tasks"]])
        for task in options.tasks or known:
            old = table["tasks"].get(task)
            if old is not None and not options.again:
                continue
            row = row_of(pool, task, known[task])
            table["tasks"][task], table["date"] = row, date.today().isoformat()
            table["seconds"] = round(sum(one["seconds"] for one in table["tasks"].values()), 1)
            write(table, options.output)
            print(f"{task}: {row['refused'] or 'played'} ({row['seconds']} s)", flush=True)
    finally:
        pool.close()


if __name__ == "__main__":
    main()
