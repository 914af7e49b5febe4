"""Arguments of a joint run outside the trainer: data sets, evaluation before and after, report."""

from dataclasses import dataclass

from ..errors import ConfigError
from ..options import Range, at_least, check_options, option


@dataclass
class EvaluationArguments:
    """Held-out problems, measured before and after training."""

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
    """Problems for training and for evaluation."""

    dataset_name: str | None = option(
        None, "Anchor problems: a hub id or a .jsonl/.parquet file. None: the exact offline generator."
    )
    dataset_train_split: str = option("train", "Split of dataset_name to train on.")


@dataclass
class JointScriptArguments(DataArguments):
    """Arguments of the script around the trainer."""

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
