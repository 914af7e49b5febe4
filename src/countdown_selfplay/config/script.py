"""Arguments of a joint run outside the trainer: data sets, evaluation before and after, report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from ..options import Range, at_least, check_options, option
from ..registry import Registry

CDG, POOL, SGS = Path("runs/tiny-cdg-start"), Path("runs/pool-start"), Path("runs/tiny-sgs")
"""Folders of the models that `--prepare` of the commands cdg, pool and sgs creates."""

STARTS = {
    str(POOL): "run: countdown-selfplay pool --prepare",
    f"{SGS}/guide": "run: countdown-selfplay sgs --prepare --recipe tiny/sgs_judge",
    f"{SGS}/conjecturer_steps": "run: countdown-selfplay sgs --prepare --recipe tiny/sgs_32",
    f"{SGS}/stp_conjecturer": "run: countdown-selfplay sgs --prepare --recipe tiny/sgs_stp",
    str(SGS): "run: countdown-selfplay sgs --prepare",
    "runs/qwen-sgs": "`countdown-selfplay sft --recipe qwen2.5-0.5b/sft_sgs_guide` makes the guide, and "
    "`countdown-selfplay dataset runs/qwen-sgs/targets.jsonl --count 512 --operands 4 --target_low 1 --hard_for "
    "Qwen/Qwen2.5-0.5B-Instruct` the targets",
    str(CDG): "run: countdown-selfplay cdg --prepare",
    "models/smollm2": "run: countdown-selfplay models smollm2",
    "runs/smollm2-135m-moves-chat": "run: countdown-selfplay sft --recipe smollm2-135m/sft_moves_chat",
    "runs/smollm2-135m-prover": "run: countdown-selfplay sft --recipe smollm2-135m/sft_moves",
    "runs/smollm2-135m-conjecturer": "run: countdown-selfplay sft --recipe smollm2-135m/sft_conjecturer",
}
"""Map of each folder of models or data to the command that creates it; a subfolder precedes its parent."""


def check_starts(*names: str | None) -> None:
    """Raise ConfigError for the first model or data set of a run that belongs to a folder of STARTS and does not exist
    yet."""
    for name in filter(None, names):
        place = Path(name)
        made_by = next((made for start, made in STARTS.items() if Path(start) in (place, *place.parents)), None)
        whole = any((place / file).exists() for file in ("config.json", "adapter_config.json"))
        there = whole if place.is_dir() else place.exists()  # half a warm start is none
        if made_by is not None and not there:
            raise ConfigError(f"'{name}', which this run starts from, is not there yet; {made_by}.")


@dataclass
class EvaluationArguments:
    """Arguments that select the held-out problems of the evaluations before and after training."""

    eval_dataset_name: str | None = option(
        None, "Held-out problems: a hub id or a file. None: the generator's held-out side."
    )
    eval_dataset_split: str = option("test", "Split of eval_dataset_name.")
    eval_problems: int = option(512, "Held-out problems for the table before / after. 0: no evaluation.")
    eval_rungs: list[int] | None = option(
        None,
        "Rungs (Countdown: numbers in a problem) of which eval_problems has equally many each. None: "
        "problems as the domain draws them.",
    )

    def __post_init__(self) -> None:
        at_least(self, 0, "eval_problems")
        if self.eval_rungs is not None:
            if self.eval_dataset_name is not None:
                raise ConfigError(
                    f"`eval_rungs` asks the domain for problems, and `eval_dataset_name` ({self.eval_dataset_name}) "
                    "brings its own; leave one of them out."
                )
            if not 0 < len(set(self.eval_rungs)) <= (self.eval_problems or len(self.eval_rungs)):
                raise ConfigError(
                    f"`eval_rungs` ({self.eval_rungs}) shares out `eval_problems` ({self.eval_problems}); list at "
                    "least one rung and at most as many as there are problems, or raise eval_problems."
                )


@dataclass
class DataArguments(EvaluationArguments):
    """Arguments that select the problems for training and for evaluation."""

    dataset_name: str | None = option(
        None, "Anchor problems: a hub id or a .jsonl/.parquet file. None: the exact offline generator."
    )
    dataset_train_split: str = option("train", "Split of dataset_name to train on.")


@dataclass
class JointScriptArguments(DataArguments):
    """Arguments of the training script that are not settings of the trainer."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_options(self)
        for name in ("early_stopping_patience", "report_every"):
            if getattr(self, name) is not None:
                at_least(self, 1, name)
        if self.control and self.eval_problems == 0:
            raise ConfigError(
                "`control` (True) compares two runs on held-out problems, and `eval_problems` is 0; raise that."
            )

    recipe: str | None = option(None, "A named setting, such as tiny/default or qwen2.5-0.5b/anchored_shaped_fixed.")
    eval_proposals: int = option(
        1024, "Proposals sampled for the table before / after.", Range(1, why="the conjecturer's rates are of them")
    )
    reward_funcs: list[str] | None = option(
        None,
        "Rewards of the prover, added up: my_module:my_reward is a TRL reward function, `verifier` the "
        "exact verifier's score. None: the verifier, and the length penalties that are set.",
    )
    callbacks: list[str] | None = option(
        None, "Trainer callbacks of your own: my_module:MyCallback is built without arguments."
    )
    early_stopping_patience: int | None = option(
        None,
        "End after so many evaluations in a row without a better metric_for_best_model (eval_pass@1 unless set); "
        "needs an eval_strategy. None: play all rounds.",
    )
    report_every: int | None = option(None, "Also rewrite report.html while the run trains, every this many rounds.")
    control: bool = option(
        False,
        "After the run train a second one on the same anchors and as many prover samples without a "
        "conjecturer, in <output_dir>/control, and print the difference of the two.",
    )
    report: bool = option(True, "Write plots and report.html into the run folder.")
    dry_run: bool = option(False, "Print settings, batch arithmetic and a lower bound of the memory, and exit.")
    probe: bool = option(
        False, "Play two rounds with texts of full length, print measured peaks of memory, leave nothing."
    )


_REWARDS: Registry[Any] = Registry("prover reward", {"verifier": "verifier"})
_CALLBACKS: Registry[Any] = Registry("callback", {"EarlyStoppingCallback": "transformers:EarlyStoppingCallback"})


def reward_funcs_of(names: Sequence[str] | None, verifier: Callable[..., Any]) -> list[Callable[..., Any]] | None:
    """Load the functions that `reward_funcs` names; the name `verifier` selects the argument `verifier`. Without names
    return None, for the trainer's default."""
    functions = [verifier if name == "verifier" else _REWARDS.load(name) for name in names or ()]
    for name, function in zip(names or (), functions, strict=True):
        if isinstance(function, type) or not callable(function):
            raise ConfigError(
                f"`reward_funcs` ({name}) must name a function (prompts, completions, **columns) -> rewards, or an "
                "object that can be called."
            )
    return functions or None


def callbacks_of(names: Sequence[str] | None, patience: int | None = None) -> list[Any]:
    """Build the callbacks that `callbacks` names, and an EarlyStoppingCallback if `patience` is set."""
    from transformers import EarlyStoppingCallback, TrainerCallback

    callbacks = []
    for name in names or ():
        entry = _CALLBACKS.load(name)
        try:
            callback = entry() if isinstance(entry, type) else entry
        except TypeError as error:
            raise ConfigError(f"`callbacks` ({name}) cannot be built without arguments: {error}.") from None
        if not isinstance(callback, TrainerCallback):
            raise ConfigError(f"`callbacks` ({name}) must name a class of TrainerCallback, or an object of one.")
        callbacks.append(callback)
    return callbacks + ([] if patience is None else [EarlyStoppingCallback(patience)])
