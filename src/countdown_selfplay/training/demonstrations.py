"""Demonstrations beside a step's own answers, in the supervised term (`sft_coef`): an anchor that keeps coverage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from ..errors import ConfigError
from ..evaluation.token_ids import many_ids
from ..random_state import seed_from
from .replay import Kept, batch_of
from .window import RoleBatch, joined

if TYPE_CHECKING:
    from .host import Host


@dataclass(frozen=True)
class Demonstrations:
    """Demonstrated answers of a role, each one row or several moves, drawn for each step alike on all processes."""

    count: int
    """In an optimizer step, over all processes."""
    make: Callable[[int, int], Sequence[Sequence[Kept]]]
    """(how many, seed) -> answers."""

    def beside(self, window: RoleBatch, key: Sequence[object], rank: int, world: int) -> RoleBatch:
        """The window with this process's share of the step's demonstrations, which the objective does not select."""
        drawn = self.make(self.count, seed_from(*key, "demonstrations"))[rank::world]
        if not drawn:
            return window
        rows = [row for answer in drawn for row in answer]
        more = batch_of(window, rows, [i for i, answer in enumerate(drawn) for _ in answer], window.has_signal)
        mask = more.tensors["completion_mask"]
        for name in ("old_per_token_logps", "sampling_per_token_logps", "ref_per_token_logps"):
            if name in window.tensors:  # nobody asks for those of a row that is not selected, but all rows have them
                more.tensors[name] = torch.full(mask.shape, torch.nan, device=mask.device)
        if "ref_per_token_logps" in more.tensors:
            more.tensors["ref_per_token_logps"] = torch.zeros_like(more.tensors["ref_per_token_logps"])
        more.tensors["sft_mask"] = mask.clone()
        more.selected_B = torch.zeros(more.rows, dtype=torch.bool)
        more.advantages_B = torch.zeros(more.rows)
        base = window if window.sequence_B is not None else replace(window, sequence_B=torch.arange(window.rows))
        return joined([base, more])


def demonstrations_of(trainer: Host, role: str) -> Demonstrations | None:
    """Those of a role that `demonstrations_per_step` asks for. ConfigError where the domain makes none."""
    settings = trainer.roles[role]
    if not settings.demonstrations_per_step:
        return None
    make: Any = getattr(trainer.domain, "demonstrations", None)
    if make is None:
        raise ConfigError(
            f"`demonstrations_per_step` ({settings.demonstrations_per_step}) of the {role} needs a domain that "
            f"demonstrates (`demonstrations(n, seed, rungs)`), and {type(trainer.domain).__name__} does not; set it "
            "to 0."
        )
    encode, rungs = trainer.processing_class, trainer.args.demonstration_rungs

    def encoded(n: int, seed: int) -> list[list[Kept]]:
        answers = make(n, seed, tuple(rungs) if rungs else None)
        asked, texts = zip(*((row["prompt"], text) for answer in answers for row, text in answer), strict=True)
        rows = (Kept(0, 0.0, *ids, {}) for ids in many_ids(encode, asked, texts))
        return [[next(rows) for _ in answer] for answer in answers]

    encoded(1, 0)  # what cannot be made is said before the run starts
    return Demonstrations(settings.demonstrations_per_step, encoded)
