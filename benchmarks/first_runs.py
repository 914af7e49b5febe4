"""How long a first run of each system takes: seconds on the clock and of CPU time, preparation included.

    python benchmarks/first_runs.py --output docs/benchmarks/first_runs.json

One run each, in an empty folder, of the commands in the README's table of systems. Seconds of CPU time are of the
command and of all processes that it started; other work on the machine hardly changes them. What is in the output
file is not run again, and `--only` names a part.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from results import machine, write_json

COMMANDS = {
    "ladder": ["joint --recipe tiny/ladder"],
    "joint": ["joint"],
    "symbolic": ["symbolic"],
    "pool": ["pool --prepare", "pool"],
    "cdg": ["cdg --prepare", "cdg"],
    "sgs": ["sgs --prepare", "sgs"],
}


def measure(command: str, folder: Path) -> dict[str, Any]:
    """`command`: arguments of `countdown-selfplay`."""
    program = [sys.executable, "-m", "countdown_selfplay.cli.main"]
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([*program, *command.split()], cwd=folder, check=True, stdin=subprocess.DEVNULL)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"command": command, "seconds": round(wall), "cpu_seconds": round(cpu)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=COMMANDS, default=list(COMMANDS))
    parser.add_argument("--folder", type=Path, default=Path("runs/first-runs"))
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    found = json.loads(options.output.read_text())["systems"] if options.output.exists() else {}
    for name in options.only:
        if name not in found:
            found[name] = [measure(command, options.folder) for command in COMMANDS[name]]
            write_json(options.output, {"machine": machine(), "systems": found})
            print(name, found[name])


if __name__ == "__main__":
    main()
