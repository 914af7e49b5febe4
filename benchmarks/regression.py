"""Is a change slower? The ratios of docs/benchmarks/regression.json measured again, and judged.

    python benchmarks/regression.py                        # all rows, about ten minutes on two cores
    python benchmarks/regression.py --only shared          # rows whose name contains this
    python benchmarks/regression.py --write                # ... and take what is found as the figures to judge by

A row is a ratio of two ways that take turns in one process, so that the machine cancels out: it is judged by itself on
every machine. benchmarks/README.md says how. Ends with 1 if a row is worse.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from results import machine, write_json

HERE = Path(__file__).resolve().parent
FILE = HERE.parent / "docs" / "benchmarks" / "regression.json"


@dataclass(frozen=True)
class Row:
    """A ratio in the JSON file that a command of this folder writes. path: its keys; up: more is better."""

    name: str
    command: str
    path: tuple[str, ...]
    up: bool = False


TINY = "throughput.py --steps 24"
PACKS = "shared_prefix.py --shape tiny --groups 8 --prompt 14 --length 16 --unequal --turns 20"
MIXED = "mixed_adapters.py --turns 20"
CHAT = "shared_prefix.py --shape tiny --groups 4 --turns 20"
BOTH_SHARED = "mixed, shared prompts / separate, shared prompts"


def _two_steps(stock: str) -> tuple[str, ...]:
    return ("ratios", "cpu", f"joint / ({stock} + {stock}_conjecturer) (time)")


ROWS = (
    Row("single policy / stock RLOO, samples", TINY, ("ratios", "cpu", "single / trl_rloo (samples/s)"), up=True),
    Row("single policy / stock GRPO, samples", TINY, ("ratios", "cpu", "single / trl_grpo (samples/s)"), up=True),
    Row("joint round / two stock RLOO steps, time", TINY, _two_steps("trl_rloo")),
    Row("joint round / two stock GRPO steps, time", TINY, _two_steps("trl_grpo")),
    Row("update, shared prompts / plain, short prompts, time", PACKS, ("seconds_shared_to_plain",)),
    Row("update, shared prompts / plain, 162 + 64 tokens, time", CHAT, ("seconds_shared_to_plain",)),
    Row("update, shared prompts / plain, 162 + 64 tokens, memory", CHAT, ("memory_mib_shared_to_plain",)),
    Row("update of a 2 x 2 LoRA pool, one mixed pass / separate, time", MIXED, ("2 x 2", "time_ratio", BOTH_SHARED)),
    Row("update of a 4 x 4 LoRA pool, one mixed pass / separate, time", MIXED, ("4 x 4", "time_ratio", BOTH_SHARED)),
)


def measured(command: str) -> dict[str, Any]:
    """The JSON file that a command writes. SystemExit with its last line if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "found.json"
        line = [sys.executable, *command.split(), "--output", str(output)]
        done = subprocess.run(line, cwd=HERE, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"`{command}` failed: {(done.stderr.strip().splitlines() or ['no output'])[-1][:300]}")
        found: dict[str, Any] = json.loads(output.read_text())
        return found


def ratio(found: dict[str, Any], row: Row) -> dict[str, Any]:
    for key in row.path:
        found = found[key]
    return {"median": found["median"], "interval": found["interval"]}


def verdict(row: Row, before: dict[str, Any] | None, now: dict[str, Any]) -> str:
    """worse, better: the intervals do not meet; else same; new: there is nothing to judge by."""
    if before is None:
        return "new"
    (low, high), (least, most) = now["interval"], before["interval"]
    if least <= high and low <= most:
        return "same"
    return "better" if (low > most) == row.up else "worse"


def shown(found: dict[str, Any]) -> str:
    low, high = found["interval"]
    return f"{found['median']:.3f} [{low:.3f}, {high:.3f}]"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="rows whose name contains this")
    parser.add_argument(
        "--write", action="store_true", help="write what is found into docs/benchmarks/regression.json"
    )
    options = parser.parse_args()
    rows = [row for row in ROWS if (options.only or "") in row.name]
    if not rows:
        parser.error(f"--only {options.only}: no row has this in its name; rows: {'; '.join(r.name for r in ROWS)}")
    known: dict[str, Any] = json.loads(FILE.read_text()) if FILE.exists() else {}
    found: dict[str, dict[str, Any]] = {}
    worse = 0
    for row in rows:
        if row.command not in found:
            found[row.command] = measured(row.command)
        now = ratio(found[row.command], row)
        before = known.get(row.name)
        judged = verdict(row, before, now)
        worse += judged == "worse"
        was = "" if before is None else f", was {shown(before)}"
        print(f"{row.name}: {shown(now)}{was}: {judged}", flush=True)
        known[row.name] = now | {"command": f"python benchmarks/{row.command}", "machine": machine()}
    if options.write:
        write_json(FILE, known)
    return 1 if worse else 0


if __name__ == "__main__":
    raise SystemExit(main())
