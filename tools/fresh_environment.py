"""Does the wheel play in an environment of its own, with the newest or the oldest dependencies that it admits?

    python tools/fresh_environment.py newest     # nothing is constrained but torch
    python tools/fresh_environment.py floors     # every direct dependency at its lower bound in pyproject.toml
    python tools/fresh_environment.py floors --keep FOLDER

torch is the version of constraints.txt in both, whose CPU wheel is small. Two rounds of the default recipe, of LoRA
and of the ladder, an evaluation and a question are played as a user would. The exit code is 1 if one of them fails, 2
if the environment cannot be made. Needs a package index, and about a minute of CPU for the installation.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
SHORT = ["--max_steps", "2", "--eval_problems", "8", "--eval_proposals", "8", "--disable_tqdm", "true"]
ONE_PROVER = ["--model", "runs/joint/prover", "--device", "cpu"]
COMMANDS: dict[str, list[str]] = {
    "joint": ["joint", *SHORT, "--output_dir", "runs/joint"],
    "lora": ["joint", *SHORT, "--policy_sharing", "lora", "--output_dir", "runs/lora"],
    "ladder": ["joint", "--recipe", "tiny/ladder", *SHORT, "--eval_rungs", "3", "4", "--output_dir", "runs/ladder"],
    "eval": ["eval", *ONE_PROVER, "--n_problems", "8", "--samples", "2"],
    "ask": ["ask", *ONE_PROVER, "3", "5", "7", "--target", "22"],
}
"""Name -> arguments of `countdown-selfplay`, in an empty folder, in this order."""


def pinned_torch() -> str:
    """The requirement of torch in constraints.txt, such as torch==2.13.0."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return next(line for line in lines if line.startswith("torch=="))


def floors() -> list[str]:
    """Each direct dependency but torch at its lower bound, as requirements."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = []
    for one in map(Requirement, project["dependencies"]):
        bound = next(spec.version for spec in one.specifier if spec.operator == ">=")
        found += [] if one.name == "torch" else [f"{one.name}=={bound}"]
    return found


def make(folder: Path, oldest: bool) -> None:
    """Build the wheel and install it into `folder`/venv."""
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "-w", str(folder), str(ROOT)], check=True)
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    (wheel,) = folder.glob("*.whl")
    bounds = folder / "constraints.txt"
    bounds.write_text("\n".join([pinned_torch(), *(floors() if oldest else [])]) + "\n", encoding="utf-8")
    inside = [str(folder / "venv/bin/python"), *pip[1:]]
    subprocess.run([*inside, "install", "-c", str(bounds), pinned_torch(), str(wheel)], check=True)


def play(folder: Path) -> list[str]:
    """Run COMMANDS in `folder`; the names of those that failed, whose last lines are printed."""
    place, failed = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}, []
    place.pop("PYTHONPATH", None)
    for name, arguments in COMMANDS.items():
        line = [str(folder / "venv/bin/countdown-selfplay"), *arguments]
        done = subprocess.run(line, cwd=folder, env=place, capture_output=True, text=True)
        print(f"{name}: {'played' if done.returncode == 0 else f'failed with code {done.returncode}'}", flush=True)
        if done.returncode:
            failed.append(name)
            print("\n".join([*done.stdout.splitlines()[-5:], *done.stderr.splitlines()[-15:]]))
    return failed


def main(argv: list[str] | None = None) -> int:
    """Make the environment, print its versions, play."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("which", choices=("newest", "floors"))
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="make it here and leave it (default: a temporary)")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) if options.keep is None else options.keep
        folder.mkdir(parents=True, exist_ok=True)
        try:
            make(folder, options.which == "floors")
        except subprocess.CalledProcessError as error:
            print(f"The environment with {options.which} dependencies cannot be made: {error}", file=sys.stderr)
            return 2
        names = [Requirement(line).name for line in floors()]
        listed = "import importlib.metadata as m, sys; print(*(f'{n} {m.version(n)}' for n in sys.argv[1:]), sep=', ')"
        subprocess.run([str(folder / "venv/bin/python"), "-c", listed, "torch", *names], check=True)
        return 1 if play(folder) else 0


if __name__ == "__main__":
    raise SystemExit(main())
