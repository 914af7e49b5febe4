"""A job: one contestant on one track with one seed, and the file that it leaves."""

import json
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import yaml
from datasets import Dataset
from transformers import TrainerCallback

from ... import __version__
from ...config import JointSelfPlayConfig
from ...data.files import data_sets
from ...data.run_files import write_atomically
from ...domains import domain_from
from ...random_state import seed_from
from ...statistics.pass_at_k import pass_at_k
from ...training.run import quiet_loading
from ...training.trainer import JointConjecturerProverTrainer
from .contestants import Contestant
from .leaderboard import arrived
from .schedule import Part
from .sets import task, withheld
from .tracks import Goal, Track

Options = Callable[[Path], tuple[Any, JointSelfPlayConfig, dict[str, Any]]]
"""A file of settings -> the script's options, the config, the trainer's arguments: as `joint --config` reads it."""

QUIET = {"report_to": "none", "disable_tqdm": True, "eval_strategy": "no", "guard": False, "save_total_limit": 1}
MEASURED_ON = {"": "held_out", "tuning": "tuning", "leaderboard": "withheld"}
CURVE_SAMPLES, BINS = 16, 12
HEALTH = {
    "solve rate": "round/solve_rate_mean", "admitted": "conjecturer/admitted_rate",
    "entropy of the prover": "prover/entropy", "entropy of the conjecturer": "conjecturer/entropy",
    "groups without signal": "prover/zero_signal_groups", "starved": "round/starved",
}  # fmt: skip
"""Metrics of each round's log that a job keeps, by their names on the page."""


def settings_of(
    track: Track, contestant: Contestant, seed: int, folder: Path, length: Track | Goal | None = None
) -> dict[str, Any]:
    """All settings of the job, as a config file of `joint`. length: rounds, and those between checkpoints."""
    length, settings = length or track, contestant.settings(track) | QUIET
    settings |= {"max_steps": length.rounds, "seed": seed}
    settings |= {"output_dir": str(folder), "save_strategy": "steps", "save_steps": length.every}
    if track.targets is not None:
        settings["dataset_name"] = str(track.folder / track.targets.file)
        proposer = settings.get("proposer_kwargs")
        if isinstance(proposer, dict) and proposer.get("derivations") == "targets":  # the moves lie beside the targets
            settings["proposer_kwargs"] = proposer | {"derivations": settings["dataset_name"]}
    return settings


def play(
    track: Track, contestant: Contestant, seed: int, folder: Path, options: Options, part: Part = ""
) -> dict[str, Any]:
    """Train, measure, and return the contents of the job's file. folder: where its run lies until it is finished; it
    goes on from there after an interruption."""
    quiet_loading()
    goal = track.goal if part == "leaderboard" else None
    settings = settings_of(track, contestant, seed, folder, goal)  # refused before the folder is made
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "settings.yaml"
    write_atomically(file, yaml.safe_dump(settings, sort_keys=False))
    script, config, arguments = options(file)
    domain = domain_from(config)
    sets = {name: track.problems(name, domain) for name in track.sets}
    if goal is not None:
        sets["withheld"] = withheld(track, domain, goal.rung, goal.problems, seed)
    kept = [problem for problems in sets.values() for problem in problems]
    data = data_sets(script, domain) | {"eval_dataset": Dataset.from_list(list(map(domain.prove_row, kept)))}
    if track.task and data["train_dataset"] is None:
        tasks = task(track, domain, seed, frozenset(map(domain.key, kept)))
        data["train_dataset"] = Dataset.from_list(list(map(domain.prove_row, tasks)))
    watched = folder / "watched.json"
    watch = Watch(track, watched) if goal is None else Climb(track, watched, goal, seed)
    callbacks = [*arguments.pop("callbacks", []), watch]
    trainer = JointConjecturerProverTrainer(args=config, domain=domain, callbacks=callbacks, **data, **arguments)
    checkpoint, on = trainer.store.resolve("auto"), MEASURED_ON[part]
    watch.begin(trainer, sets[on], checkpoint is not None)
    if not watch.arrived:
        trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
    result = {"track": track.name, "contestant": contestant.name, "seed": seed, "measured_on": on, **watch.ended()}
    if track.targets is not None and goal is None:
        targets = measured(trainer, track.problems("targets", domain), track.samples, "targets")
        result["targets"] = {"correct": targets.correct, "n": targets.n}
    return result | {"changes": contestant.changes(track), "facts": track.facts, "machine": machine()}


class Watch(TrainerCallback):
    """Measures the prover every `track.every` rounds and at the end, and collects the metrics of HEALTH."""

    def __init__(self, track: Track, file: Path) -> None:
        self.track, self.file = track, file
        self.every, self.rounds = track.every, range(track.rounds)
        self.points: list[dict[str, Any]] = []
        self.since, self.earlier = time.process_time(), 0.0
        self.measuring = 0.0  # CPU seconds

    def begin(self, trainer: Any, held_out: Sequence[Any], again: bool) -> None:
        """again: whether the run goes on from a checkpoint."""
        self.trainer, self.held_out = trainer, list(held_out)
        if again and self.file.exists():
            self.points = json.loads(self.file.read_text(encoding="utf-8"))
            self.earlier = self.points[-1]["cpu_seconds"] if self.points else 0.0
        else:
            self.point(0)
        self.since, self.measuring = time.process_time(), 0.0

    def spent(self) -> float:
        """CPU seconds of the training so far, those that measuring took left out."""
        return self.earlier + time.process_time() - self.since - self.measuring

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **more: Any) -> None:
        index = self.trainer.counts.rounds
        if "round/generations" in (logs or {}) and index % self.every == 0 and index in self.rounds:
            self.point(index)

    def point(self, index: int) -> None:
        spent, start = self.spent() if index else 0.0, time.process_time()
        here = {"round": index, "answers": answers_of(self.trainer), "cpu_seconds": round(spent, 1), **self.rates()}
        self.points = [one for one in self.points if one["round"] < index] + [here]
        write_atomically(self.file, json.dumps(self.points))
        self.measuring += time.process_time() - start

    def rates(self) -> dict[str, Any]:
        first, each = len(self.held_out) // len(self.track.measured), self.track.curve_each
        few = [problem for i, problem in enumerate(self.held_out) if i % first < each]
        return self.seen(measured(self.trainer, few, CURVE_SAMPLES, "curve"))

    def seen(self, answers: Any) -> dict[str, Any]:
        """Of a point: rates by rung, and over a plane the right answers to each problem, by which it is ranked."""
        counts = {"correct": answers.correct} if self.track.bands else {}
        return {"by_rung": by_rung(answers, self.track), **counts}

    @property
    def arrived(self) -> bool:
        """Whether the run need not go on."""
        return False

    def ended(self) -> dict[str, Any]:
        spent, counts = self.spent(), self.trainer.counts
        answers = measured(self.trainer, self.held_out, self.track.samples, "held-out")
        rows = [row for row in self.trainer.state.log_history if "round/generations" in row]
        end = {"round": len(rows), "answers": answers_of(self.trainer), "cpu_seconds": round(spent, 1)}
        probed = sum(row.get("proposer/probe_answers", 0) for row in rows)
        played = {  # over a plane, of each value of the second axis
            str(value): counted(rows, f"round/{axis}_{value}_played")
            for axis, values in self.track.bands.items()
            for value in values
        }
        return {
            "correct": answers.correct, "n": answers.n, "reasons": dict(answers.reasons),
            "curve": [*self.points, {**end, **self.seen(answers)}], "rounds": len(rows),
            "answers": answers_of(self.trainer), "uncounted_answers": int(probed),
            "samples": sum(counts.samples.values()), "tokens": sum(counts.tokens.values()),
            "updates": int(sum(row.get("prover/steps", 0) for row in rows)), "cpu_seconds": end["cpu_seconds"],
            "proposed": per_rung(rows, "proposed") or per_rung(rows, "played"),
            **({"played": played} if played else {}),
            "health": {name: binned(rows, key) for name, key in HEALTH.items() if any(key in row for row in rows)},
        }  # fmt: skip


class Climb(Watch):
    """Of the leaderboard: measures on withheld problems, and ends the run at the first point that has the rate."""

    def __init__(self, track: Track, file: Path, goal: Goal, seed: int) -> None:
        super().__init__(track, file)
        self.goal, self.seed = goal, seed
        self.every, self.rounds = goal.every, range(goal.rounds + 1)  # the last round has a point too

    @property
    def arrived(self) -> bool:
        return arrived(self.points, self.goal.rate) is not None

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **more: Any) -> None:
        super().on_log(args, state, control, logs, **more)
        control.should_training_stop = control.should_training_stop or self.arrived

    def rates(self) -> dict[str, Any]:
        answers = measured(self.trainer, self.held_out, self.goal.samples, f"withheld {self.seed}")
        rows = self.trainer.state.log_history
        return {
            "rate": round(sum(answers.correct) / (answers.n * len(answers.correct)), 5),
            "tokens": sum(self.trainer.counts.tokens.values()),
            "updates": int(sum(row.get("prover/steps", 0) for row in rows)),
        }

    def ended(self) -> dict[str, Any]:
        return {"goal": asdict(self.goal), "points": self.points, "arrived": arrived(self.points, self.goal.rate)}


def measured(trainer: Any, problems: Sequence[Any], n: int, what: str) -> Any:
    """Return the prover's answers, of several provers the first one's; the seed depends on `what` alone."""
    by_player = trainer.evaluator.provers(list(problems), n, (1,), seed=seed_from(0, "arena", what))
    return next(iter(by_player.values()))


def answers_of(trainer: Any) -> int:
    return sum(count for player, count in trainer.counts.samples.items() if player.partition("/")[0] == "prover")


def by_rung(answers: Any, track: Track) -> dict[str, list[float]]:
    """Rung -> the means of pass@k, in the order of the track's `ks`. found: of as many problems of each measured rung,
    rung by rung; a domain whose answers are whole tells no rungs."""
    each = len(answers.correct) // len(track.measured)
    correct_of = {rung: answers.correct[i * each : (i + 1) * each] for i, rung in enumerate(track.measured)}
    return {
        str(rung): [round(sum(pass_at_k(answers.n, c, k) for c in correct) / each, 4) for k in track.ks]
        for rung, correct in correct_of.items()
    }


def _bins(rows: Sequence[Mapping[str, Any]]) -> list[Sequence[Mapping[str, Any]]]:
    """The rounds in at most BINS parts of equally many."""
    size = max(1, -(-len(rows) // BINS))
    return [rows[first : first + size] for first in range(0, len(rows), size)]


def binned(rows: Sequence[Mapping[str, Any]], key: str) -> list[float | None]:
    """The mean of a metric in each bin; None where no round of it has one."""
    values = [[row[key] for row in bin_rows if key in row] for bin_rows in _bins(rows)]
    return [round(sum(bin_values) / len(bin_values), 4) if bin_values else None for bin_values in values]


def per_rung(rows: Sequence[Mapping[str, Any]], what: str) -> dict[str, list[int]]:
    """Rung -> its problems in each bin; rungs without one are left out."""
    start, end = "round/rung_", f"_{what}"
    names = {key for row in rows for key in row if key.startswith(start) and key.endswith(end)}
    counts = {int(name[len(start) : -len(end)]): counted(rows, name) for name in names}
    return {str(rung): counts[rung] for rung in sorted(counts) if any(counts[rung])}


def counted(rows: Sequence[Mapping[str, Any]], key: str) -> list[int]:
    """The sum of a metric in each bin."""
    return [int(sum(row.get(key, 0) for row in bin_rows)) for bin_rows in _bins(rows)]


def machine() -> dict[str, Any]:
    """Return the facts of the machine on which figures in seconds depend."""
    versions = {"countdown-selfplay": __version__, "torch": torch.__version__, "python": platform.python_version()}
    cores = os.cpu_count() or 1
    return {"processor": platform.machine(), "cores": cores, "threads": torch.get_num_threads(), **versions}
