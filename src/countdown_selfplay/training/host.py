"""What the modules of training/ know of the trainer: its state, by name and type. The trainer is made of them, so that
none of them can import it."""

from __future__ import annotations

from collections import defaultdict
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from trl import GRPOTrainer

from ..config import JointSelfPlayConfig, RoleSettings
from ..contract.game import Game
from ..curriculum import CollapseGuard, ConjecturerGuard
from ..distributed.ddp import Engine
from ..distributed.processes import Processes
from ..generation.base import Sampler
from ..objectives.base import Objective
from ..policies import PolicySet
from ..statistics.solve_rate import CumulativeSolveRate
from .answer_buffer import AnswerBuffer
from .demonstrations import Demonstrations
from .frame import Frame
from .losses import RoleLoss
from .replay import SampleReplay


class Host(GRPOTrainer):
    """Base of JointConjecturerProverTrainer. Declarations alone: its constructor fills them in."""

    args: JointSelfPlayConfig
    processing_class: Any
    model: Any
    optimizer: Any
    lr_scheduler: Any
    domain: Any
    game: Game
    roles: dict[str, RoleSettings]
    """Every player, trained or not."""
    trained: tuple[str, ...]
    """The players that are trained."""
    objectives: dict[str, Objective]
    losses: dict[str, RoleLoss]
    replays: dict[str, SampleReplay | AnswerBuffer]
    demonstrations: dict[str, Demonstrations | None]
    policies: PolicySet
    engine: Engine
    processes: Processes
    sampler: Sampler
    frame: Frame
    guard: CollapseGuard
    conjecturer_guard: ConjecturerGuard | None
    """Under guard_scope=conjecturer."""
    solve_rate: CumulativeSolveRate | None
    """Of the data set's problems; None for a stream."""
    held_out: frozenset[str]
    """Keys of the evaluation's problems."""
    eos_token_ids: list[int]
    num_generations_eval: int
    settings: dict[str, Any]
    """What a resume must leave as it was."""
    changed_settings: dict[str, list[Any]]
    """Of a resume: {name: [there, here]}."""
    configured_groups: list[dict[str, Any]]
    verified_checkpoint: Path | None
    max_grad_norm: float | None
    save_total_limit: int | None
    """Both hidden from the stock Trainer while it trains: rollbacks.py says why."""
    termination: Any
    anchor_stream: Any
    round_metrics: list[dict[str, Any]]
    """Of the rounds since the last log."""
    round_samples: list[dict[str, Any]]
    """Of the last round, for samples.jsonl."""
    logged_histogram: list[int] | None
    signalless: frozenset[str]
    """Players without signal in the window at hand."""
    idle: frozenset[str]
    """Players that have taken all their steps of the round (`sequences_per_step`)."""
    loop: dict[str, Any]
    """Of the last checkpoint that was written or resumed (loop_state)."""
    completion_logs: defaultdict[str, list[Any]]
    """By player, what TRL collected in each of its turns of the round."""
    _logs: dict[str, Any]
    _role_metrics: dict[str, dict[str, defaultdict[str, list[float]]]]
    _round: list[dict[str, Any]] | None
    _judged: list[Any] | None
    _verdicts: list[Any] | None
    """Problems of the completions that are sampled at the moment; verdicts on completions that are only scored."""

    format_probed = False
    """Whether the provers have shown that they can write a move (format_probe.py)."""

    if TYPE_CHECKING:

        @property
        def first_of_window(self) -> bool: ...
        @property
        def last_of_window(self) -> bool: ...
        def sampling_as(self, role: str) -> AbstractContextManager[None]: ...
        def acting_as(self, role: str, n: int, judged: list[Any] | None = None) -> AbstractContextManager[None]: ...
        def stops(self, role: str) -> list[str] | None: ...
        def captured(self) -> tuple[list[str], list[Any] | None, torch.Tensor]: ...
        def forget_optimizer(self) -> None: ...
        def _time(self, name: str, start: float) -> None: ...
