"""Short runs of the settings that are asked about, each with changes of its own, and what their provers solve."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import TrainerCallback

from ..config import JointSelfPlayConfig
from ..data.run_files import checkpoint_folders
from ..domains import HELD_OUT_SEED, domain_from
from ..errors import ConfigError
from ..games.rungs import has_rungs
from ..random_state import seed_from
from ..training.evaluation import evaluate_provers
from ..training.trainer import JointConjecturerProverTrainer
from .gates import Counts

Options = Callable[[Mapping[str, Any]], tuple[JointSelfPlayConfig, dict[str, Any]]]
"""Changes of settings -> the config of a run, and the trainer's other arguments."""


class Stop(TrainerCallback):
    """Ends a run after so many rounds, with a checkpoint if it is to go on."""

    def __init__(self, steps: int, save: bool) -> None:
        self.steps, self.save = steps, save

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        if state.global_step >= self.steps:
            control.should_training_stop = True
            control.should_save = control.should_save or self.save


class Runs:
    """options: see Options. folder: where the runs are written. rounds: of a whole run; problems: of each rung."""

    def __init__(self, options: Options, folder: Path, rounds: int, problems: int) -> None:
        self.options, self.folder, self.rounds = options, folder, rounds
        config, _ = options({})
        self.domain = domain_from(config)
        if not has_rungs(self.domain) or not hasattr(self.domain, "random_of_rung"):
            raise ConfigError(
                f"The domain '{config.domain}' has no rungs (`rungs`, `rung`, `random_of_rung`; contract/domain.py, "
                "RungDomain), and headroom measures rung by rung; give it some, or ask about another domain "
                "(Countdown: several --operands)."
            )
        self.rungs = sorted(self.domain.rungs)
        self.trained_conjecturer = "conjecturer" in config.trained_roles
        self.seed = int(config.seed)
        self.tuning = self._problems(problems, "tuning", HELD_OUT_SEED + 1)
        self.held_out = {
            rung: self.domain.held_out_of_rung(problems, rung)
            if hasattr(self.domain, "held_out_of_rung")
            else self.domain.random_of_rung(problems, rung, HELD_OUT_SEED, frozenset())
            for rung in self.rungs
        }

    def _problems(self, each: int, what: str, seed: int) -> dict[int, list[Any]]:
        found = {
            rung: self.domain.random_of_rung(each, rung, seed_from(seed, what, rung), frozenset())
            for rung in self.rungs
        }
        for rung, own in found.items():
            if not own:
                raise ConfigError(f"The domain makes no problem of rung {rung}; leave that rung out.")
        return found

    def trainer(
        self, name: str, changes: Mapping[str, Any], stop: Stop | None = None
    ) -> JointConjecturerProverTrainer:
        """A trainer of the settings with `changes`; it trains on no problem that is measured."""
        fixed = {
            "max_steps": self.rounds,
            "output_dir": str(self.folder / name),
            "save_strategy": "no",
            "eval_strategy": "no",
            "report_to": "none",
            "disable_tqdm": True,
        }
        config, arguments = self.options({**fixed, **changes})
        callbacks = [*arguments.pop("callbacks", []), *([stop] if stop is not None else [])]
        kept = [*self.tuning.values(), *self.held_out.values()]
        rows = Dataset.from_list([self.domain.prove_row(problem) for own in kept for problem in own])
        return JointConjecturerProverTrainer(
            args=config, domain=domain_from(config), eval_dataset=rows, callbacks=callbacks, **arguments
        )

    def play(
        self, name: str, changes: Mapping[str, Any], start: Path | None = None, rounds: int | None = None
    ) -> tuple[JointConjecturerProverTrainer, Path | None]:
        """Train until round `rounds` (None: all), from the checkpoint `start`; the trainer, and the checkpoint that it
        leaves where it stopped before the end."""
        save = rounds is not None and rounds < self.rounds
        each = self.options({})[0].steps_per_round
        stop = None if rounds is None else Stop(rounds * each, save)
        again = {} if start is None else {"allow_changed": "proposer,proposer_kwargs,conjecturer_micro_batches"}
        trainer = self.trainer(name, {**changes, **again}, stop)
        logging.getLogger(__name__).info("headroom: %s", name)
        trainer.train(resume_from_checkpoint=None if start is None else str(start))
        left = checkpoint_folders(self.folder / name) if save else []
        return trainer, left[-1] if left else None

    def solved(
        self,
        trainer: JointConjecturerProverTrainer,
        problems: Mapping[int, Sequence[Any]],
        n: int,
        seed: int = 0,
        rungs: Sequence[int] | None = None,
    ) -> Counts:
        """Right answers of the provers, of n each, to each problem of `rungs` (None: all)."""
        asked = list(problems) if rungs is None else list(rungs)
        flat = [problem for rung in asked for problem in problems[rung]]
        found = next(iter(evaluate_provers(trainer, flat, n, (1,), seed=seed).values())).correct
        counts, at = {}, 0
        for rung in asked:
            counts[rung], at = found[at : at + len(problems[rung])], at + len(problems[rung])
        return counts
