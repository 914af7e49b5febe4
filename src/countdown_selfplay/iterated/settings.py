"""What an iterated run is made of."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from ..errors import ConfigError
from ..registry import nearest


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
    balance: int | None = None
    """Most samples of each label (the paper: 10,000); and no label has more than the rarest has, unless that is 0."""
    accumulate: bool = True
    """Keep what earlier iterations chose. Algorithm 2 does so for the prover and the misleading critic, section 3.2
    for every role."""
    learning_rate: Sequence[float] = (5e-6, 1e-6)
    """Per iteration; the last one stands for all that follow."""
    batch_size: Sequence[int] = (32, 256)
    """Rows of an optimizer step, per iteration."""
    epochs: float = 1.0
    """Passes over the data; 2 for the helpful critic."""

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

    def keeps(self, reward: float, label: str) -> bool:
        """Whether a sample is trained on."""
        if self.labels is not None and label not in self.labels:
            return False
        return reward >= self.threshold if self.inclusive else reward > self.threshold


def paper_roles() -> dict[str, RoleTraining]:
    """The Critic-Discernment Game's, as in the paper, which balances the prover's data alone. Its sampling
    (temperature .95, top-p .95, top-k 5, 4,096 tokens; appendix A) is that of IteratedSettings."""
    return {
        "prover": RoleTraining(4, 0.5, labels=("right", "resisted", "corrected"), balance=10_000),
        "helpful": RoleTraining(8, 0.5, accumulate=False, epochs=2.0),
        "misleading": RoleTraining(4, 0.75),
    }


@dataclass
class IteratedSettings:
    """An iterated run; one is a command's options too."""

    output_dir: str = field(default="iterated-selfplay", metadata={"help": "The folder of the run."})
    role_training: dict | str | None = field(
        default=None,
        metadata={
            "help": "Settings per role, as a mapping in YAML and Python and as JSON here: how many samples, which are "
            "kept, how they are trained on. None: the Critic-Discernment Game's of the paper."
        },
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
    seed: int = field(default=0, metadata={"help": "Of sampling, balancing and training."})

    def __post_init__(self) -> None:
        self.kinds: dict[str, RoleTraining] = _kinds(self.role_training)
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


def _kinds(given: Mapping[str, Any] | str | None) -> dict[str, RoleTraining]:
    """`role_training` as objects; ConfigError for what is not a mapping of known settings."""
    try:
        roles = json.loads(given) if isinstance(given, str) else given
    except ValueError:
        roles = ()
    if roles is None:
        return paper_roles()
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
        for name in ("learning_rate", "batch_size"):
            if isinstance(settings.get(name), int | float | str):
                settings[name] = (_number(kind, name, settings[name]),)
        found[kind] = replace(paper_roles().get(kind, RoleTraining()), **settings)
    return found


def _number(kind: str, name: str, value: int | float | str) -> float | int:
    try:
        return int(value) if name == "batch_size" else float(value)
    except ValueError:
        raise ConfigError(f"`role_training.{kind}.{name}` ({value!r}) must be a number, or a list of them.") from None
