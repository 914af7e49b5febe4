"""The table of reasoning-gym's tasks: which of them `domain: reasoning_gym` plays, at which levels, what they cost.

    python -m tools.gym_tasks [--tasks chain_sum ...] [--again] [--read] [--audit] [--page]

Measures each task and writes src/countdown_selfplay/worlds/gym_tasks.json after each, so that a run that was stopped
goes on, then docs/gym_tasks.md; --again measures anew, --page writes the page alone. --read records that the scorers
of the tasks, with all that they call in the package, have been read by a person and evaluate nothing: without it a
task is refused. --audit measures again what texts that solve nothing earn (worlds/audit.py). Of each task:

- its knobs, and of each the highest level that can be played: two problems at every level up to it were made, in
  LIMIT_MS each, and their own answers score 1, with the other knobs at their lowest level or at the same one; then all
  knobs go down together until this holds of some problem of the highest levels, and none takes longer than a deadline;
- 12 problems at the lowest levels, 12 at random ones and 4 at the highest: its own answers score 1, and the first 12
  are the same when they are made again, or the task is refused with that reason;
- the milliseconds of the processor that a problem and a score take (median, and the greatest);
- whether an answer that is code runs, and the most that a text that solves nothing earns, over 12 problems.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict
from datetime import date
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from countdown_selfplay.cli.env import cores
from countdown_selfplay.worlds import gym_tasks
from countdown_selfplay.worlds.audit import KINDS, PLANTED, audit
from countdown_selfplay.worlds.gym_scorers import OURS
from countdown_selfplay.worlds.reasoning_gym import GymProblem, ReasoningGym
from countdown_selfplay.worlds.workers import Unchecked, Workers
from tools.trees import ROOT

TABLE = gym_tasks.TABLE
PAGE = ROOT / "docs" / "gym_tasks.md"
EACH = 12
LIMIT_MS = 1500.0
"""A problem that takes longer to make is too slow for rounds of hundreds."""
SHOWN = 0.2
"""A text that solves nothing is shown from this mean score on, or if it is right; a constant, if it is right twice."""
_IDLE = {"coaching", "factory", "data", "version_manager"}
"""Modules of the package that no scorer calls."""
UNREAD = "its scorer has not been read"
EVALUATES = {
    "intermediate_integration": "its scorer runs the answer as Python (SymPy's `parse_expr`), and a tenth of the "
    "answers that it gives itself are unevaluated integrals",
}
"""Tasks that are refused by what their scorers do."""


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
    if task in EVALUATES:
        return {
            "knobs": {name: [0, count] for name, count in knobs.items()},
            "refused": EVALUATES[task],
            "seconds": 0.0,
        }
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


def scorer_of(task: str) -> dict[str, Any]:
    """The library's own, or the files of the package with the task's scorer and what it calls, and their digest."""
    from reasoning_gym.factory import DATASETS

    if task in OURS:
        return {"ours": True}
    kind = DATASETS[task][0]
    own = {one.__module__ for one in kind.__mro__ if one.__module__.startswith("reasoning_gym.")}
    held = [one for name in own for one in vars(sys.modules[name]).values()]
    used = {str(getattr(one, "__module__", None) or getattr(one, "__name__", "")) for one in held}
    names = {name for name in own | used if name.startswith("reasoning_gym.") and name.split(".")[1] not in _IDLE}
    files = sorted(f"{name.partition('.')[2].replace('.', '/')}.py" for name in names)
    return {"files": files, "digest": gym_tasks.digest_of(files)}


def audited(tasks: Iterable[str]) -> Iterable[tuple[str, dict[str, Any]]]:
    """Of each playable task what planted answers and texts that solve nothing do."""
    domain = ReasoningGym([*tasks], prompt="bare", workers=2, deadline=60.0)
    try:
        for task in tasks:
            lowest = tuple(0 for _ in gym_tasks.table()["tasks"][task]["knobs"])
            problems = domain._made([GymProblem(task, lowest, EACH + seed) for seed in range(EACH)])
            found = audit(domain, problems, [getattr(problem, "answer", "") for problem in problems])
            yield task, {"ran": len(found.ran), "junk": {kind: asdict(one) for kind, one in found.paid.items()}}
    finally:
        domain.close()


def page(table: dict[str, Any]) -> str:
    """docs/gym_tasks.md."""
    tasks = table["tasks"]
    refused = {task: row["refused"] or ("" if "scorer" in row else UNREAD) for task, row in tasks.items()}
    played = {task: row for task, row in tasks.items() if not refused[task]}
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
        "**No text of a model runs.** A task is played with a scorer of the library's own (*ours*), or with that of "
        "the package, which was read:",
        f"the table has a digest of its files, and any other is refused. *Runs* counts which of {len(PLANTED)} "
        "answers that are code ran. The last columns",
        "have the text of a kind that earns most on 12 problems at the lowest levels: the share of problems for which "
        "it is right, or its mean",
        f"score if that is {SHOWN} or more. A constant is shown if it is right twice: problems have the same answer, "
        "such as yes or no.",
        "*Right or other* is the right answer before and behind another one, and the mean of both.",
        "**A task with an entry pays for texts that solve nothing**: a proposer that is rewarded for solve rates can "
        "find them.",
        "",
        "| task | settings: levels from 0 to | a problem | a score | scorer | runs | constant | question "
        "| right or other | unevaluated |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for task, row in played.items():
        knobs = ", ".join(
            f"{name} {high}" + (f"/{count - 1}" if high < count - 1 else "")
            for name, (high, count) in row["knobs"].items()
        )
        cells = [task, knobs or "none: no proposals", _ms(row["make_ms"]), _ms(row["score_ms"])]
        cells += ["ours" if "ours" in row["scorer"] else "read", str(row["ran"])]
        cells += [_paid(kind, row["junk"].get(kind)) for kind in KINDS]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "## Refused", "", "| task | settings | why |", "|---|---|---|"]
    for task, row in tasks.items():
        if refused[task]:
            lines.append(f"| {task} | {', '.join(row['knobs'])} | {refused[task]} |")
    return "\n".join(lines) + "\n"


def _paid(kind: str, paid: dict[str, Any] | None) -> str:
    once = 1.5 / EACH if kind == "constant" else 0.0
    if paid is None or not (paid["right"] > once or paid["score"] >= SHOWN):
        return ""
    text = " ".join(paid["text"].split()).replace("|", "\\|")
    shown = f"`{text if len(text) <= 24 else text[:21] + '...'}` " if kind in ("constant", "unevaluated") else ""
    return shown + (f"{paid['right']:.2f} right" if paid["right"] else f"{paid['score']:.2f}")


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
    parser.add_argument("--read", action="store_true", help="record the scorers as read")
    parser.add_argument("--audit", action="store_true", help="measure again what planted and idle texts earn")
    parser.add_argument("--page", action="store_true", help="write the page alone")
    parser.add_argument("--output", type=Path, default=TABLE, help="the JSON file")
    parser.add_argument("--markdown", type=Path, default=PAGE, help="the page")
    options = parser.parse_args(argv)
    if options.read:
        read(options)
    if not (options.page or options.read or options.audit):
        measure(options)
    if not (options.page or options.read):
        write_audit(options)
    if not options.read:
        options.markdown.write_text(page(json.loads(options.output.read_text(encoding="utf-8"))), encoding="utf-8")


def read(options: argparse.Namespace) -> None:
    """Record the scorers of all tasks, or of those that are named, as read."""
    table = json.loads(options.output.read_text(encoding="utf-8"))
    for task in options.tasks or table["tasks"]:
        table["tasks"][task].pop("scorer", None)
        if task not in EVALUATES:
            table["tasks"][task]["scorer"] = scorer_of(task)
    write(table, options.output)


def write_audit(options: argparse.Namespace) -> None:
    """Audit the playable tasks that are named, or that have not been yet."""
    table = json.loads(options.output.read_text(encoding="utf-8"))
    playable = [task for task, row in table["tasks"].items() if not row["refused"] and row.get("scorer")]
    anew = options.audit or options.again
    asked = [t for t in options.tasks or playable if t in playable and (anew or "junk" not in table["tasks"][t])]
    for task, found in audited(asked) if asked else ():
        table["tasks"][task] |= found
        write(table, options.output)
        print(f"{task}: {found['ran']} planted answers ran", flush=True)


def measure(options: argparse.Namespace) -> None:
    """Measure what is asked for and not known yet."""
    installed = version("reasoning-gym")
    table = json.loads(options.output.read_text(encoding="utf-8")) if options.output.exists() else {}
    if table.get("reasoning_gym") != installed:
        machine = f"{cores()} CPU cores ({platform.machine()})"
        table = {"reasoning_gym": installed, "machine": machine, "date": "", "seconds": 0.0, "tasks": {}}
    pool = Workers("countdown_selfplay.worlds.gym_worker:run", processes=2, deadline=6.0, attempts=1, straggler=60.0)
    try:
        (known,) = pool.map([["tasks"]])
        for task in options.tasks or known:
            old = table["tasks"].get(task)
            if old is not None and not options.again:
                continue
            kept = {name: one for name, one in (old or {}).items() if name == "scorer"}
            row = row_of(pool, task, known[task]) | kept
            table["tasks"][task], table["date"] = row, date.today().isoformat()
            table["seconds"] = round(sum(one["seconds"] for one in table["tasks"].values()), 1)
            write(table, options.output)
            print(f"{task}: {row['refused'] or 'played'} ({row['seconds']} s)", flush=True)
    finally:
        pool.close()


if __name__ == "__main__":
    main()
