"""What the command line costs where it computes nothing, in CPU seconds over those of `import torch`.

python benchmarks/command_line.py [--turns 5]

Each line is a process of its own, with its imports from compiled files; the lines take turns. The table has the median
of the CPU seconds, and that of the ratio within a turn.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys

PROGRAM = "-m countdown_selfplay.cli.main"
LINES = {
    "import torch": ["-c", "import torch"],
    **{
        line: [*PROGRAM.split(), *line.split()]
        for line in ("joint --help", "arena --list", "recipes", "joint --learning_rte 1", "joint --recipe tiny/defalt")
    },
}


def cpu_seconds(line: str) -> float:
    """User and system time of one process; a refusal has the exit code 2."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, *LINES[line]], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != (2 if "rte" in line or "defalt" in line else 0):
        raise SystemExit(f"`{line}` ended with {done.returncode}: {done.stderr[-500:]}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=5)
    turns = parser.parse_args().turns
    for line in LINES:  # whatever is not compiled yet
        cpu_seconds(line)
    found = [{line: cpu_seconds(line) for line in LINES} for _ in range(turns)]
    print(f"{'':<28}  CPU s  over import torch")
    for line in LINES:
        seconds = statistics.median(turn[line] for turn in found)
        ratio = statistics.median(turn[line] / turn["import torch"] for turn in found)
        print(f"{line:<28}  {seconds:5.2f}  {ratio:.2f}")


if __name__ == "__main__":
    main()
