"""Short runs of the settings with changes, and the solve counts of their provers."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from accelerate.utils.memory import clear_device_cache
from datasets import Dataset
from transformers import TrainerCallback

from ...config import JointSelfPlayConfig
from ...data.run_files import checkpoint_folders
from ...distributed.processes import Processes
from ...domains import HELD_OUT_SEED, domain_from
from ...errors import ConfigError
from ...games.health import has_rungs
from ...random_state import seed_from
from ...training.trainer import JointConjecturerProverTrainer
from .gates import Counts

Options = Callable[[Mapping[str, Any]], tuple[JointSelfPlayConfig, dict[str, Any]]]
"""Changes of settings -> the config of a run, and the trainer's other arguments."""

ALONE = {"conjecturer_players": 0, "anchor_fraction": 0.0}
"""Settings of a run with a proposer over rungs and without a conjecturer."""
HELD_OUT_EACH = 64


class Measured(NamedTuple):
    """Measurement at the end of a run: `n` answers to each of the problems by rung, sampled by `seed`."""

    problems: Mapping[int, Sequence[Any]]
    n: int
    seed: int


class Stop(TrainerCallback):
    """Callback that ends a run after so many optimizer steps, with a checkpoint if it is to continue."""

    def __init__(self, steps: int, save: bool) -> None:
        self.steps, self.save = steps, save

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        if state.global_step >= self.steps:
            control.should_training_stop = True
            control.should_save = control.should_save or self.save


class Runs:
    """Runs of one setting. Raises ConfigError for a domain without rungs.

    options: see Options. folder: of the runs. rounds: of a whole run. problems: of each rung. A domain with a
    held-out side gives at least HELD_OUT_EACH of each rung: gate 4 compares few right answers. tuning, held_out:
    disjoint problems by rung, excluded from training. Arms are compared on held_out alone, and all choices are
    made by tuning."""

    def __init__(self, options: Options, folder: Path, rounds: int, problems: int) -> None:
        self.options, self.folder, self.rounds = options, folder, rounds
        self.processes = Processes()  # those of a run, once there was one
        config, _ = options({})
        self.domain: Any = domain_from(config)
        if not has_rungs(self.domain) or self.domain.random_of_rung is None:
            raise ConfigError(
                f"The domain '{config.domain}' has no rungs to measure by (`rungs`, `rung`, `random_of_rung`; "
                "contract/domain.py); give it some, or ask about another domain (Countdown: several --operands)."
            )
        self.rungs = sorted(self.domain.rungs)
        self.trained_conjecturer = "conjecturer" in config.trained_roles
        self.seed = int(config.seed)
        self.group = config.all_roles[next(iter(config.players_of("prover")))].num_generations
        held_out_of, made = self.domain.held_out_of_rung, self.domain.random_of_rung
        self.held_out, self.tuning = dict[int, list[Any]](), dict[int, list[Any]]()
        for rung in self.rungs:
            if held_out_of is None:
                self.held_out[rung] = made(problems, rung, HELD_OUT_SEED, frozenset())
            else:
                self.held_out[rung] = held_out_of(max(problems, HELD_OUT_EACH), rung)
        kept = frozenset(self.domain.key(problem) for one in self.held_out.values() for problem in one)
        for rung in self.rungs:
            self.tuning[rung] = made(problems, rung, seed_from(HELD_OUT_SEED, "tuning", rung), kept)
            if not self.held_out[rung] or not self.tuning[rung]:
                side = "held-out" if not self.held_out[rung] else "training"
                raise ConfigError(f"The domain makes no {side} problem of rung {rung}; leave that rung out.")

    def trainer(self, name: str, changes: Mapping[str, Any], stop: Stop) -> JointConjecturerProverTrainer:
        """Return a trainer of the settings with `changes`, which excludes measured problems."""
        fixed = {"max_steps": self.rounds, "output_dir": str(self.folder / name), "disable_tqdm": True}
        fixed |= {"save_strategy": "no", "eval_strategy": "no", "report_to": "none"}
        fixed["guard"] = False  # it would end all gates for the collapse of one arm, which the gate is to show
        config, arguments = self.options({**fixed, **changes})
        callbacks = [*arguments.pop("callbacks", []), stop]
        kept = [*self.tuning.values(), *self.held_out.values()]
        rows = Dataset.from_list([self.domain.prove_row(problem) for problems in kept for problem in problems])
        return JointConjecturerProverTrainer(
            args=config, domain=domain_from(config), eval_dataset=rows, callbacks=callbacks, **arguments
        )

    def play(
        self,
        name: str,
        changes: Mapping[str, Any],
        measured: Sequence[Measured],
        *,
        start: Path | None = None,
        rounds: int | None = None,
        keep: bool = False,
    ) -> tuple[list[Counts], Path | None]:
        """Train until round `rounds` (None: all; 0: not at all), from the checkpoint `start`; return the provers'
        solve counts of each of `measured`, and with `keep` the checkpoint. The memory is released."""
        end = self.rounds if rounds is None else min(rounds, self.rounds)
        keep = keep and end < self.rounds
        # A run that another proposer began: only headroom's own, whose next stage plays by a longer table.
        again = {} if start is None else {"allow_changed": "proposer,proposer_kwargs"}
        trainer = self.trainer(name, {**changes, **again}, Stop(end, keep))
        self.processes = trainer.processes
        if start is None:
            trainer.evaluator.probe_format()  # before the minutes of an evaluation
        if end:
            trainer.train(resume_from_checkpoint=None if start is None else str(start))
        counts = [self._solved(trainer, one) for one in measured]
        del trainer
        clear_device_cache(garbage_collection=True)
        return counts, checkpoint_folders(self.folder / name)[-1] if keep else None

    def drop(self, name: str) -> None:
        self.processes.together(lambda: shutil.rmtree(self.folder / name, ignore_errors=True))

    def _solved(self, trainer: JointConjecturerProverTrainer, measured: Measured) -> Counts:
        """Return the right answers, of n each, to each problem by rung; of several provers those of the first."""
        flat = [problem for members in measured.problems.values() for problem in members]
        by_player = trainer.evaluator.provers(flat, measured.n, (1,), seed=measured.seed)
        correct = iter(next(iter(by_player.values())).correct)
        return {rung: [next(correct) for _ in members] for rung, members in measured.problems.items()}
