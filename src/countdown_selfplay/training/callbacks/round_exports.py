"""Players as model folders, every few rounds of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from ..exports import export_round
from ..host import Host
from ..steps import ends_round


class RoundExports(TrainerCallback):
    """`<agent>_<k>/round_<r>/model/` every `export_every` rounds (Multimodal LLM Self-Play, appendix B)."""

    def __init__(self, trainer: Host) -> None:
        self.trainer = trainer

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        every = args.rounds_per_export
        if every and ends_round(args, state.global_step) and self.trainer.frame.rounds % every == 0:
            export_round(self.trainer, Path(args.output_dir))
