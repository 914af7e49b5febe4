"""Training of the warm starts that recipes of the embedded model need and that do not ship: weights for the
Critic-Discernment Game, provers and a conjecturer of up to four numbers for a pool, and the roles and hard targets of
self-guided self-play. Runs of `countdown-selfplay sft` train them side by side; a folder appears once it is
complete."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..config import JointSelfPlayConfig
from ..config.recipes import recipe_settings
from ..config.script import CDG, POOL, SGS
from ..countdown import CountdownDomain, ProblemSpec, generate_problems
from ..data.jsonl import json_file
from ..data.run_files import read_lines, write_atomically
from ..domains import domain_from
from ..errors import ConfigError, DataError
from ..evaluation.terminal import ProgressLine
from .demonstrations import critique_demonstrations, generated_rows
from .hard import ATTEMPTS, MOST, AttemptFile, hard_problems

_LOOK = 2.0  # seconds between two looks at how far the runs are
_AT_ONCE = 2


@dataclass(frozen=True)
class Job:
    """Fine-tuning run of a warm start. folder: place of the finished model. recipe: name of a recipe of `sft`.
    options: flags of `sft` without dashes -> values, which override the recipe."""

    folder: Path
    recipe: str = "tiny/sft"
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def begun(self) -> Path:
        """Folder of the training; only a finished model is moved to `folder`."""
        return self.folder.parent / ".unfinished" / self.folder.name

    @property
    def log(self) -> Path:
        return self.folder.with_name(f"{self.folder.name}.log")

    @property
    def command(self) -> list[str]:
        given = {**self.options, "output_dir": self.begun, "disable_tqdm": "true"}
        words = [sys.executable, "-m", "countdown_selfplay.cli.main", "sft", "--recipe", self.recipe]
        for name, value in given.items():
            words += [f"--{name}", *map(str, value if isinstance(value, list | tuple) else [value])]
        return words

    def share(self) -> float:
        """Return the share of epochs that are finished, from metrics.jsonl."""
        epochs = [line.get("epoch", 0.0) for line in read_lines(self.begun / "metrics.jsonl")]
        whole = recipe_settings(self.recipe, "sft")["num_train_epochs"]
        return min(1.0, max(epochs, default=0.0) / self.options.get("num_train_epochs", whole))


def fine_tune(jobs: Sequence[Job]) -> None:
    """Run the jobs, two at a time, with a progress bar on stderr. Raises ConfigError with the last log line of
    a failed job; the next call removes its unfinished folder."""
    for job in jobs:  # the finished model replaces its folder
        if job.folder.exists() and (not job.folder.is_dir() or any(job.folder.iterdir())):
            raise ConfigError(f"'{job.folder}' holds other files than a model of this warm start; move it away.")
    threads = max(1, (os.cpu_count() or 1) // max(1, min(_AT_ONCE, len(jobs))))
    environment = {"OMP_NUM_THREADS": str(threads), **os.environ}
    waiting, running, done = list(jobs), dict[int, tuple[Job, subprocess.Popen[bytes]]](), 0
    label = " and ".join(job.folder.name for job in jobs)
    try:
        with ProgressLine(label, "percent") as bar:
            while waiting or running:
                while waiting and len(running) < _AT_ONCE:
                    job = waiting.pop(0)
                    shutil.rmtree(job.begun, ignore_errors=True)
                    job.begun.parent.mkdir(parents=True, exist_ok=True)
                    with job.log.open("wb") as log:
                        process = subprocess.Popen(job.command, stdout=log, stderr=log, env=environment)
                    running[process.pid] = job, process
                for pid, (job, process) in list(running.items()):
                    if process.poll() is not None:
                        del running[pid]
                        _finish(job, process.returncode)
                        done += 1
                share = done + sum(job.share() for job, _ in running.values())
                bar(round(100 * share / len(jobs)), 100)
                if running:
                    with suppress(subprocess.TimeoutExpired):
                        next(iter(running.values()))[1].wait(_LOOK)
    finally:
        for _, process in running.values():
            process.terminate()
            process.wait()


def _finish(job: Job, code: int) -> None:
    if code:
        lines = job.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        raise ConfigError(f"The warm start '{job.folder}' failed: {lines[-1] if lines else f'exit code {code}'}")
    shutil.rmtree(job.folder, ignore_errors=True)
    job.begun.rename(job.folder)
    job.log.unlink()
    with suppress(OSError):  # unless another one is in it
        job.begun.parent.rmdir()


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


CDG_PROBLEMS, POOL_PROBLEMS, POOL_PROPOSALS = 3072, 6144, 2048
SGS_ROLES, SGS_TARGETS = ("prover", "conjecturer"), 320
SGS_EASIEST = 0.3
"""Bound below which the warm-started solver's pass@8 on the targets must lie, in new attempts."""
FOUR = ProblemSpec((2, 3, 4), number_low=1, number_high=12, target_low=1, target_high=99)


def made(folder: Path) -> bool:
    return (folder / "config.json").exists()


def cdg_start(
    folder: Path = CDG,
    problems: int = CDG_PROBLEMS,
    each: int = 2,
    critiques: int = 6,
    operands: int = 3,
    model: str = "tiny",
) -> None:
    """Fine-tune weights that answer, criticise, revise and check in the game's format, on the exact solver's rows of
    `problems` problems: `each` times an answer, `critiques` critiques, a revision and a check. A critic learns late to
    copy a step: with one critique each it names absent steps. operands: numbers of a problem, 3 or 4. model: the
    initial model; the embedded one has seen at most three numbers. Does nothing if the weights exist."""
    if made(folder):
        return
    domain = CountdownDomain.tiny()
    domain = replace(domain, spec=replace(domain.spec, operands=(operands,)))
    rows = critique_demonstrations(problems, domain, per_problem=each, critiques=critiques)
    data = write_rows(folder.with_name(f"{folder.name}.jsonl"), rows)
    # Small batches, because the cost is per row. Batches of similar lengths cost a third less and teach much less; at
    # the recipe's learning rate the game is learnt a little better, and answering is unlearnt.
    options = {"dataset_name": data, "keep_wrong": "true", "num_train_epochs": 1, "number_high": 12}
    options |= {"per_device_train_batch_size": 48, "learning_rate": 8e-4, "eval_problems": 128}
    options |= {"operands": operands, "model_name_or_path": model}
    fine_tune([Job(folder, options=options)])


def half_rows(problems: int, domain: CountdownDomain) -> tuple[list[dict[str, Any]], set[str]]:
    """Return demonstrations for one prover of a pool, six of each problem, and the keys that a second prover must not
    use: each gets half of the 212 training problems of two numbers and of the 4,101 of three."""
    keys = [domain.key(problem) for problem in generate_problems(2 * problems, domain.spec, seed=0)]
    rows = generated_rows(problems, "prover", domain, 0, exclude=keys[1::2], per_problem=6)
    return rows, {*keys[::2], *(domain.key(domain.problem(row)) for row in rows)}


def pool_job(folder: Path, rows: Sequence[dict[str, Any]], **options: Any) -> Job:
    """Return the job of a player of a pool, trained on `rows`; its role is the first word of the folder's name."""
    role, data = folder.name.split("_")[0], write_rows(folder.with_suffix(".jsonl"), rows)
    settings = {"role": role, "dataset_name": data, "operands": FOUR.operands, "number_high": FOUR.number_high}
    return Job(folder, options={**settings, "eval_problems": 0, **options})


def pool_start(root: Path = POOL, problems: int = POOL_PROBLEMS, proposals: int = POOL_PROPOSALS) -> None:
    """Train a prover and a conjecturer on problems of two to four numbers, unless they exist."""
    domain, jobs = replace(CountdownDomain.tiny(), spec=FOUR), []
    if not made(root / "prover_a"):
        jobs.append(pool_job(root / "prover_a", half_rows(problems, domain)[0]))
    if not made(root / "conjecturer"):
        jobs.append(pool_job(root / "conjecturer", generated_rows(proposals, "conjecturer", domain, 0)))
    if jobs:
        fine_tune(jobs)


def sgs_start(
    root: Path = SGS,
    roles: Sequence[str] = SGS_ROLES,
    targets: int = SGS_TARGETS,
    quick: bool = False,
    attempts: int = ATTEMPTS,
    most: int = MOST,
    say: Callable[[str], None] = print,
) -> None:
    """Train a warm start for each role, and find the targets, problems of four numbers that the prover solves at most
    `most` times in `attempts`; existing ones are kept. `quick`: half the prover's demonstrations. Raises ConfigError
    if the folder was made with other settings, DataError if the targets are not hard."""
    usual = {"attempts": ATTEMPTS, "most": MOST}
    settings, record = {"quick": quick, "targets": targets, "attempts": attempts, "most": most}, root / "made.json"
    there = usual | json_file(record) if record.exists() else settings
    if there != settings:
        recorded, wanted = (
            f"{m['targets']} targets solved at most {m['most']} times in {m['attempts']}, "
            f"{'with' if m['quick'] else 'without'} --quick"
            for m in (there, settings)
        )
        raise ConfigError(
            f"'{root}' was made for {recorded}, and this call is for {wanted}: move it away, or call as then."
        )
    root.mkdir(parents=True, exist_ok=True)
    write_atomically(record, json.dumps(settings) + "\n")
    few = {"eval_problems": 64, "eval_proposals": 256}
    fewer = {"demonstrations": 6144} if quick else {}
    missing = [role for role in roles if not made(root / role)]
    if missing:
        fine_tune([Job(root / r, f"tiny/sft_sgs_{r}", {**few, **(fewer if r == "prover" else {})}) for r in missing])
    if not (root / "targets.jsonl").exists():
        _hard_targets(root, settings, say)


def _hard_targets(root: Path, settings: dict[str, Any], say: Callable[[str], None]) -> None:
    from ..statistics.pass_at_k import pass_at_k_array
    from ..tiny import load_tiny_model

    args = JointSelfPlayConfig.from_recipe("tiny/sgs", use_cpu=True)
    domain = domain_from(args)
    domain = replace(domain, spec=replace(domain.spec, operands=(4,)))
    file = AttemptFile(root / "targets.attempts", settings)  # file from which an interrupted search continues
    attempts = settings["attempts"]
    how: dict[str, Any] = {"attempts": attempts, "most": settings["most"], "say": say}
    how["max_new_tokens"] = args.max_completion_length
    hard = hard_problems(*load_tiny_model(root / "prover"), domain, settings["targets"], file=file, **how)
    at_8 = float(pass_at_k_array(hard.fresh, attempts, ATTEMPTS).mean())
    if at_8 >= SGS_EASIEST:
        raise DataError(f"The solver solves {at_8:.0%} of the targets in {ATTEMPTS} attempts; train it for less long.")
    rows = [{"nums": list(p.numbers), "target": p.target} for p in hard.problems]
    write_rows(root / "targets.jsonl", rows)
    file.path.unlink(missing_ok=True)
    say(hard.told() + ("." if attempts == ATTEMPTS else f"; {ATTEMPTS} of these solve {at_8:.1%}."))
