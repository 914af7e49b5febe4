"""What an iterated run is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ..errors import ConfigError


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
    """The Critic-Discernment Game's, as in the paper. Its text gives no size of the balanced sets of the critics."""
    return {
        "prover": RoleTraining(4, 0.5, labels=("right", "resisted", "corrected"), balance=10_000),
        "helpful": RoleTraining(8, 0.5, accumulate=False, epochs=2.0),
        "misleading": RoleTraining(4, 0.75),
    }


@dataclass(frozen=True)
class IteratedSettings:
    """An iterated run. Sampling: temperature .95, top-p .95, top-k 5, 4,096 tokens in seed 002, appendix A."""

    output_dir: str
    roles: Mapping[str, RoleTraining] = field(default_factory=paper_roles)
    iterations: int = 2
    chunk: int = 64
    """Problems that are played and written at a time; what a kill can cost."""
    temperature: float = 0.95
    top_p: float = 0.95
    top_k: int = 5
    max_completion_length: int = 4096
    batch_size: int = 256
    """Completions that are generated at once."""
    per_device_train_batch_size: int = 8
    """Rows per forward pass in retraining; `batch_size` of a role must be a multiple of it, or below it."""
    max_length: int | None = None
    """Tokens of a row that is trained on; longer ones are left out and counted."""
    seed: int = 0

    def __post_init__(self) -> None:
        if self.iterations < 1 or self.chunk < 1 or not self.roles:
            raise ConfigError(
                f"`iterations` ({self.iterations}) and `chunk` ({self.chunk}) must be at least 1, and `roles` "
                f"({dict(self.roles)}) must name the game's kinds."
            )
        for kind, role in self.roles.items():
            for size in role.batch_size:
                if size > self.per_device_train_batch_size and size % self.per_device_train_batch_size:
                    raise ConfigError(
                        f"`roles.{kind}.batch_size` ({size}) must be a multiple of `per_device_train_batch_size` "
                        f"({self.per_device_train_batch_size})."
                    )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON: what a resumed run is compared with. Where it lies, and how many iterations, may change."""
        found = asdict(self)
        del found["output_dir"], found["iterations"]
        return found
