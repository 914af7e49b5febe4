"""What an iterated run is made of."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal, get_args

from ..errors import ConfigError
from ..registry import nearest, suggestion
from ..warm_starts.filters import is_loop

Algorithm = Literal["rest", "expert_iteration", "dpo", "step_dpo"]
PAIRWISE = ("dpo", "step_dpo")
"""Trained on pairs, a better and a worse text, by TRL's DPOTrainer; the others by its SFTTrainer."""
ANSWERS_ALONE = ("expert_iteration", "step_dpo")
"""Baselines outside of the game: the prover answers, and nobody criticises (seed 002, section 5.1)."""


@dataclass(frozen=True)
class RoleTraining:
    """How samples of a role are chosen, and how it is retrained on them (seed 002, appendix B)."""

    num_generations: int = 4
    """Samples per row: 4 first answers of the prover, 8 helpful or 4 misleading critiques."""
    threshold: float = 0.5
    """Least reward of a sample that is kept: .5 for the prover and the helpful critic, .75 for the misleading one."""
    inclusive: bool = True
    """A reward equal to the threshold is kept, as appendix B counts ("at least two" of four). False: equation 5."""
    labels: tuple[str, ...] | None = None
    """Only samples that the game gave one of these words; None: all."""
    failures: tuple[str, ...] | None = None
    """For pairs: samples that the game gave one of these words are failures. None: all that are not kept."""
    balance: int | None = None
    """Most samples of each label in an iteration (the paper: 10,000); and no label has more than the rarest has,
    unless that is 0. Iterations are balanced one by one, then united (Algorithm 2)."""
    drop_loops: bool = True
    """Leave out samples that repeat a long stretch. The authors' code does so for the prover's; a critic quotes."""
    accumulate: bool = True
    """Keep what earlier iterations chose. Algorithm 2 does so for the prover and the misleading critic, section 3.2
    for every role."""
    learning_rate: Sequence[float] = (5e-6, 1e-6)
    """Per iteration; the last one stands for all that follow."""
    batch_size: Sequence[int] = (32, 256)
    """Rows of an optimizer step, per iteration."""
    epochs: float = 1.0
    """Passes over the data; 2 for the helpful critic."""
    max_steps: Sequence[int] | None = None
    """Optimizer steps per iteration in place of `epochs`: the training budget of another run. 0: the role keeps its
    weights. None: by epochs."""

    def __post_init__(self) -> None:
        if self.num_generations < 1 or self.epochs <= 0 or (self.balance is not None and self.balance < 1):
            raise ConfigError(
                f"`num_generations` ({self.num_generations}) and `balance` ({self.balance}) must be at least 1, and "
                f"`epochs` ({self.epochs}) above 0."
            )
        if not self.learning_rate or not self.batch_size or min(self.batch_size) < 1 or min(self.learning_rate) <= 0:
            raise ConfigError(
                f"`learning_rate` ({list(self.learning_rate)}) and `batch_size` ({list(self.batch_size)}) need a "
                "value above 0 for each iteration, or one for all."
            )
        if self.max_steps is not None and (not self.max_steps or min(self.max_steps) < 0):
            raise ConfigError(f"`max_steps` ({list(self.max_steps)}) needs a number of at least 0 for each iteration.")

    def keeps(self, reward: float, label: str) -> bool:
        """Whether a sample is trained on."""
        if self.labels is not None and label not in self.labels:
            return False
        return reward >= self.threshold if self.inclusive else reward > self.threshold

    def loops(self, text: str) -> bool:
        """Whether a sample is left out for its repetitions."""
        return self.drop_loops and is_loop(text)

    def fails(self, reward: float, label: str) -> bool:
        """Whether a sample is the worse one of a pair."""
        return not self.keeps(reward, label) if self.failures is None else label in self.failures


FAILURES = ("wrong", "misled", "unclear", "not_corrected")


def paper_roles(algorithm: str = "rest") -> dict[str, RoleTraining]:
    """The Critic-Discernment Game's, as in the paper, which balances the prover's data alone. Its sampling
    (temperature .95, top-p .95, top-k 5, 4,096 tokens; appendix A) is that of IteratedSettings. DPO: learning rate
    1e-6 and 64 pairs a step (appendix B)."""
    roles = {
        "prover": RoleTraining(4, 0.5, labels=("right", "resisted", "corrected"), failures=FAILURES, balance=10_000),
        "helpful": RoleTraining(8, 0.5, drop_loops=False, accumulate=False, epochs=2.0),
        "misleading": RoleTraining(4, 0.75, drop_loops=False),
    }
    if algorithm in PAIRWISE:
        pairs = {"learning_rate": (1e-6,), "batch_size": (64,), "epochs": 1.0}
        roles = {kind: replace(role, **pairs) for kind, role in roles.items()}  # type: ignore[arg-type]
    return roles


def answers_alone(kinds: Mapping[str, RoleTraining]) -> dict[str, RoleTraining]:
    """The prover of a baseline that knows first answers only; it may have as many rows of its one label as the game's
    has of all of its labels."""
    prover = kinds["prover"]
    balance = None if prover.balance is None else prover.balance * len(prover.labels or (1,))
    return {"prover": replace(prover, labels=("right",), failures=("wrong",), balance=balance)}


@dataclass
class IteratedSettings:
    """An iterated run; one is a command's options too."""

    output_dir: str = field(default="iterated-selfplay", metadata={"help": "The folder of the run."})
    role_training: dict | str | None = field(
        default=None,
        metadata={
            "help": "Settings per role, as a mapping in YAML and Python and as JSON here: how many samples, which are "
            "kept, how they are trained on. It replaces a recipe's as a whole. None: the Critic-Discernment "
            "Game's of the paper."
        },
    )
    algorithm: Algorithm = field(
        default="rest",
        metadata={
            "help": "How roles are retrained. rest: on the samples that are kept (the paper's way). dpo: on pairs of "
            "a success and a failure at the same prompt. expert_iteration: on right first answers alone, without "
            "critics. step_dpo: on pairs at the first wrong step of first answers, without critics."
        },
    )
    leave_out: list[str] = field(
        default_factory=list, metadata={"help": "Roles that do not play, such as misleading (section 5.2)."}
    )
    iterations: int = field(default=2, metadata={"help": "How often all problems are played; may be raised later."})
    chunk: int = field(
        default=64, metadata={"help": "Problems that are played and written at a time: what a kill can cost."}
    )
    temperature: float = field(default=0.95, metadata={"help": "Sampling temperature."})
    top_p: float = field(default=0.95, metadata={"help": "Nucleus of the sampling; 1 switches it off."})
    top_k: int = field(default=5, metadata={"help": "Top-k of the sampling; 0 switches it off."})
    max_completion_length: int = field(default=4096, metadata={"help": "Most tokens in a sampled completion."})
    per_device_eval_batch_size: int = field(default=256, metadata={"help": "Completions generated at once."})
    per_device_train_batch_size: int = field(default=8, metadata={"help": "Rows per forward pass in retraining."})
    max_length: int | None = field(
        default=None, metadata={"help": "Tokens of a row; longer ones are left out of training and counted."}
    )
    beta: float = field(default=0.5, metadata={"help": "DPO's beta, which ties a role to its initial model."})
    mask_first_turn: bool = field(
        default=True,
        metadata={
            "help": "A revision's loss is on the revision alone. False: also on the first answer, which is a turn of "
            "its prompt (chats only)."
        },
    )
    imitate: str | None = field(
        default=None,
        metadata={
            "help": "The folder of another iterated run, whose first iteration's chosen samples the model is trained "
            "on before it plays: for base models, which do not know the game (section 4.1)."
        },
    )
    chat_template_path: str | None = field(
        default=None,
        metadata={"help": "A model whose chat template is used, such as the instruct model beside a base model."},
    )
    imitate_rows: int = field(default=30_000, metadata={"help": "Samples of `imitate` that are trained on, at most."})
    seed: int = field(default=0, metadata={"help": "Of sampling, balancing and training."})

    def __post_init__(self) -> None:
        if self.algorithm not in get_args(Algorithm):
            known = list(get_args(Algorithm))
            close = suggestion(self.algorithm, known)
            raise ConfigError(f"`algorithm` ({self.algorithm!r}) must be one of {', '.join(known)}.{close}")
        kinds = _kinds(self.role_training, self.algorithm)
        known = list(dict.fromkeys([*kinds, *paper_roles()]))
        for kind in self.leave_out:
            if kind not in known:
                raise ConfigError(f"`leave_out` ({kind}) must name roles that play.{nearest(kind, known)}")
        self.kinds: dict[str, RoleTraining] = {kind: r for kind, r in kinds.items() if kind not in self.leave_out}
        if self.algorithm in ANSWERS_ALONE:
            if "prover" not in self.kinds:
                raise ConfigError(f"`algorithm` ({self.algorithm}) trains the prover, and it does not play; let it.")
            self.kinds = answers_alone(self.kinds)
        if self.beta <= 0 or self.imitate_rows < 1:
            raise ConfigError(
                f"`beta` ({self.beta}) must be above 0, and `imitate_rows` ({self.imitate_rows}) at least 1."
            )
        if self.iterations < 1 or self.chunk < 1:
            raise ConfigError(f"`iterations` ({self.iterations}) and `chunk` ({self.chunk}) must be at least 1.")
        for kind, role in self.kinds.items():
            for size in role.batch_size:
                if size > self.per_device_train_batch_size and size % self.per_device_train_batch_size:
                    raise ConfigError(
                        f"`role_training.{kind}.batch_size` ({size}) must be a multiple of "
                        f"`per_device_train_batch_size` ({self.per_device_train_batch_size})."
                    )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON: what a resumed run is compared with. Where it lies, and how many iterations, may change."""
        found = {**asdict(self), "role_training": {kind: asdict(role) for kind, role in self.kinds.items()}}
        del found["output_dir"], found["iterations"]
        return found


def check_settings(settings: IteratedSettings, game: Any, domain: Any) -> None:
    """ConfigError unless the settings are for this game and domain: each of the game's roles plays or is left out, and
    those that it cannot do without play."""
    kinds, algorithm, roles = settings.kinds, settings.algorithm, list(game.roles)
    if set(kinds) - set(roles):
        raise ConfigError(
            f"`role_training` ({', '.join(kinds)}) names kinds that the game does not have; it has {', '.join(roles)}."
        )
    lost = [kind for kind in roles if kind in settings.leave_out and kind not in getattr(game, "optional_roles", ())]
    if lost:
        raise ConfigError(f"`leave_out` ({lost[0]}) names a role without which there is no game; let it play.")
    missing = [kind for kind in roles if kind not in kinds and kind not in settings.leave_out]
    if missing and algorithm not in ANSWERS_ALONE:
        raise ConfigError(
            f"`role_training` ({', '.join(kinds)}) lacks {' and '.join(missing)}, who play too; give each its "
            f"settings ({{}} for the paper's), or set `leave_out` to play without."
        )
    if algorithm != "step_dpo":
        return
    if not hasattr(domain, "cut_at_mistake"):
        raise ConfigError(
            f"`algorithm` (step_dpo) needs a domain that finds the first wrong step of an answer, and "
            f"{type(domain).__name__} has no `cut_at_mistake`; take dpo."
        )
    if getattr(getattr(domain, "rules", None), "answer_format", "bare") != "bare":
        raise ConfigError(
            "`algorithm` (step_dpo) reads the steps of bare answers, and this prover's stand in tags; set "
            "`prover_prompt` to compact, or take dpo."
        )


def _kinds(given: Mapping[str, Any] | str | None, algorithm: str) -> dict[str, RoleTraining]:
    """`role_training` as objects; ConfigError for what is not a mapping of known settings."""
    try:
        roles = json.loads(given) if isinstance(given, str) else given
    except ValueError:
        roles = ()
    paper = paper_roles(algorithm)
    if roles is None:
        return paper
    if not isinstance(roles, Mapping) or not roles:
        raise ConfigError(
            f"`role_training` ({given!r}) must map kinds to their settings, such as {{'prover': {{'epochs': 2}}}}."
        )
    found = {}
    for kind, role in roles.items():
        if isinstance(role, RoleTraining):
            found[kind] = role
            continue
        names = [f.name for f in fields(RoleTraining)]
        for name in role:
            if name not in names:
                raise ConfigError(f"`role_training.{kind}.{name}` is not a setting of a role.{nearest(name, names)}")
        settings: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in role.items()}
        for name in ("learning_rate", "batch_size", "max_steps"):
            if isinstance(settings.get(name), int | float | str):
                settings[name] = (_number(kind, name, settings[name]),)
        found[kind] = replace(paper.get(kind, RoleTraining()), **settings)
    return found


def _number(kind: str, name: str, value: int | float | str) -> float | int:
    try:
        return float(value) if name == "learning_rate" else int(value)
    except ValueError:
        raise ConfigError(f"`role_training.{kind}.{name}` ({value!r}) must be a number, or a list of them.") from None
