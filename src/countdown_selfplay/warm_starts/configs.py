"""Settings of the warm starts: options of the commands around TRL's trainers, and TRL's configs for them."""

from dataclasses import dataclass
from typing import Any, Literal

from trl import DPOConfig, SFTConfig

from ..config.fields import CountdownFields
from ..config.script import EvaluationArguments
from ..config.settled import Settled, check_numbers, check_reporters
from ..distributed.choose import choose_engine
from ..domains import domain_from
from ..errors import ConfigError
from ..evaluation.setting import TRAINING, preset
from ..options import Range, check_options, json_object, option


@dataclass
class WarmStartArguments(EvaluationArguments, CountdownFields):
    """Common options of the warm starts. Fields that are also in JointSelfPlayConfig have the same meaning."""

    recipe: str | None = option(None, "A named setting, such as tiny/sft or tiny/ipo.")
    role: Literal["prover", "conjecturer", "guide"] = option(
        "prover", "The role that is warm-started; by ipo the prover alone."
    )
    eval_proposals: int = option(1024, "Proposals sampled for the table before / after.", Range(1))
    eval_samples: int = option(8, "Answers per held-out problem, the n of pass@k.", Range(1))
    temperature: float = option(1.0, "Sampling temperature.", Range(0, above=True))
    top_p: float = option(1.0, "Nucleus of the sampling; 1 switches it off.")
    top_k: int = option(0, "Top-k of the sampling; 0 switches it off.")
    max_completion_length: int = option(256, "Most tokens in a sampled completion.")
    chat_template_kwargs: str | None = option(
        None, "Variables of the model's chat template as JSON, such as '{\"enable_thinking\": false}'."
    )
    dry_run: bool = option(False, "Print the resolved settings, the data and the batch arithmetic, and exit.")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_options(self)
        check_numbers(self)
        _ = self.played

    @property
    def played(self) -> Any:
        """Domain that these fields configure."""
        return domain_from(self)

    @property
    def evaluated_as(self) -> dict[str, Any]:
        """Sampling arguments of an evaluation: for a prover those of `eval_preset`."""
        return preset(self.eval_preset if self.role == "prover" else TRAINING, self.sampling)

    @property
    def sampling(self) -> dict[str, Any]:
        """Arguments of `sample_completions`."""
        names = ("temperature", "top_p", "top_k")
        given = {n: getattr(self, n) for n in names} | {"max_new_tokens": self.max_completion_length}
        return given | {"chat_template_kwargs": json_object("chat_template_kwargs", self.chat_template_kwargs)}


@dataclass
class SFTArguments(WarmStartArguments):
    """Options of `countdown-selfplay sft` around SFTTrainer."""

    dataset_name: str | None = option(
        None,
        "Demonstrations: a hub id or a .jsonl/.parquet file of `countdown-selfplay dataset --schema "
        "solved` (or proposed), or a corpus with columns `query` and `completion`. None: made by the exact "
        "solver; with answers moves planted, a row a move (--schema moves).",
    )
    dataset_train_split: str = option("train", "Split of dataset_name to train on.")
    demonstrations: int = option(
        4096,
        "Problems that demonstrations are made of when dataset_name is None; with answers moves of the "
        "sizes in operands, each as often as it is listed.",
        Range(1),
    )
    demonstrations_per_problem: int = option(1, "How many of each, with the numbers in another order.", Range(1))
    helping: bool = option(
        False,
        "A conjecturer is shown problems that help with a target problem, as self-guided self-play asks "
        "for them, instead of problems with a number of operands.",
    )
    variants: bool = option(
        False,
        "The same, but the conjecturer is shown the target problem with its solution, as the proposer stp "
        "asks for them.",
    )
    distractors: bool = option(
        True,
        "Of problems that help with a target (helping, variants, role=guide) a half are steps towards it and a half "
        "distractors, of which a guide has something to refuse. False: steps alone (SGS).",
    )
    keep_wrong: bool = option(False, "Also train on demonstrations that the verifier refuses.")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("helping", "variants"):
            if getattr(self, name) and self.role != "conjecturer":
                raise ConfigError(
                    f"`{name}` (True) is for role=conjecturer, and `role` is {self.role}; leave it unset."
                )
        if self.helping and self.variants:
            raise ConfigError("`helping` and `variants` (True) ask in two ways; set the one that the run will use.")
        if not self.distractors and not (self.helping or self.variants or self.role == "guide"):
            raise ConfigError(
                f"`distractors` (False) is for problems that help with a target, and `role` is {self.role}; set "
                "`helping` or `variants` too, or role=guide, or leave it unset."
            )

    @property
    def schema(self) -> str | None:
        """Schema of generated demonstrations; None: the role's usual one."""
        made = "helping" if self.helping else "variant" if self.variants else None
        return made if self.distractors else f"{made or 'reviewed'}_steps"


@dataclass
class IPOArguments(WarmStartArguments):
    """Options of `countdown-selfplay ipo` around DPOTrainer."""

    samples_file: str | None = option(
        None,
        "Scored samples: the .jsonl that `countdown-selfplay eval --output` wrote, or rows with numbers, "
        "target, completion and score. None: sampled from the model.",
    )
    dataset_name: str | None = option(
        None,
        "Problems to sample on, a hub id or a file; with columns `chosen` and `rejected` the pairs "
        "themselves. None: the exact generator.",
    )
    dataset_train_split: str = option("train", "Split of dataset_name.")
    problems: int = option(512, "Problems that are sampled, at most.", Range(1))
    samples_per_problem: int = option(8, "Answers per problem.", Range(2))
    pairs_per_group: int | None = option(4, "Most pairs from one problem.", Range(1))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.role != "prover":
            raise ConfigError(f"`role` ({self.role}) has no pairs to prefer among; warm-start it with sft.")


class _Settled(Settled):
    """Base class of the configs below, which checks numbers and reporters and refuses settings without effect."""

    def __post_init__(self) -> None:
        check_numbers(self)
        check_reporters(self)
        self.settle()
        super().__post_init__()  # type: ignore[misc]  # TRL's

    def refuse(self, unread: dict[str, str]) -> None:
        """Raise ConfigError for a setting without effect that differs from its default; after `__post_init__`."""
        args: Any = self
        unread = {**unread, "eval_strategy": "the model is measured before and after training"}
        for name, why in unread.items():
            if getattr(args, name) not in (None, False, type(args).__dataclass_fields__[name].default):
                raise ConfigError(f"`{name}` ({getattr(args, name)}) is not read here: {why}; leave it unset.")
        choose_engine(args)
        if args.push_to_hub:
            raise ConfigError(
                "`push_to_hub` (True) is not supported; after training upload the folder with "
                "`countdown-selfplay push <output_dir>`."
            )


_TOKENS = "the rows are turned into token ids before TRL sees them, with the loss on the completion only"


@dataclass(repr=False)  # TrainingArguments' own repr hides tokens
class SFTSettings(_Settled, SFTConfig):
    """SFTConfig whose bf16 follows the device and whose loss is always on the completion."""

    output_dir: str = option("sft", "The folder of the run and of the model.")

    def __post_init__(self) -> None:
        super().__post_init__()
        names = ("assistant_only_loss", "eos_token", "chat_template_path", "dataset_kwargs")
        self.refuse(dict.fromkeys(names, _TOKENS))
        if self.completion_only_loss is False:
            raise ConfigError("`completion_only_loss` (False) is not read here: the loss is always on the completion.")


@dataclass(repr=False)
class DPOSettings(_Settled, DPOConfig):
    """DPOConfig whose bf16 follows the device."""


@dataclass(repr=False)
class IPOSettings(DPOSettings):
    """DPOSettings with the loss of IPO (Azar et al. 2024, equation 17), (h - 1 / (2 beta))^2, where h is the
    difference of the log-ratios to the start of chosen and rejected. `ipo_reduction` mean: each log-ratio per token of
    its completion, as in TRL (IPO's authors confirmed averages to TRL's). sum: those of whole sequences, as in Allen
    and Ståblein (section 3.1); the target margin, 1 / (2 beta), is one of sums. Neither Allen and Ståblein nor Task
    Difficulty and Diversity states its beta or learning rate: the defaults are TRL's, beta 0.1 and learning rate 1e-6
    (the code of Allen and Ståblein: sums, 0.1, 5e-6)."""

    output_dir: str = option("ipo", "The folder of the run and of the model.")
    loss_type: list[str] = option(factory=lambda: ["ipo"], help="Always ipo.")
    ipo_reduction: Literal["mean", "sum"] = option(
        "mean", "Log-ratios per token of a completion (mean, as in TRL) or of whole ones (sum, Allen and Ståblein)."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.loss_type != ["ipo"]:
            raise ConfigError(
                f"`loss_type` ({', '.join(self.loss_type)}) must be ipo here; TRL's DPOTrainer has the other losses."
            )
        if self.ipo_reduction not in ("mean", "sum"):
            raise ConfigError(f"`ipo_reduction` ({self.ipo_reduction!r}) must be mean or sum.")
        if self.beta <= 0:
            raise ConfigError(f"`beta` ({self.beta}) must be above 0: the margin that is aimed at is 1 / (2 beta).")
        self.refuse({"sync_ref_model": "the reference is the weights that were passed in"})
