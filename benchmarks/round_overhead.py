"""The time of a joint round of the tiny model over that of the same round with the work that it leaves out.

    python benchmarks/round_overhead.py --steps 40

Left out, since it changes no number: TRL's padding row by row and its unwrapping of a model that nothing wraps, the
products of gradients with 1 in clips that do not clip, and the setting of modes that are set. Two trainers with equal
seeds take turns in one process; their weights must be equal in the end, bit for bit.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
import transformers
from contenders import TOKENIZER, Setting, build, prepare_model
from pacing import Paced
from results import machine, spread, write_json
from transformers import PreTrainedModel
from trl import GRPOTrainer

from countdown_selfplay import JointConjecturerProverTrainer, _trl
from countdown_selfplay.distributed import ddp
from countdown_selfplay.policies.full import PolicyModule


def clip_always(optimizer: Any, settings: Mapping[str, Any], dropped: frozenset[str]) -> dict[str, float]:
    """`clip_roles` with torch's clip, which multiplies whatever the norm is."""
    norms = {}
    for role in {group["role"] for group in optimizer.param_groups}:
        groups = [group for group in optimizer.param_groups if group["role"] == role]
        parameters = [p for group in groups for p in group["params"] if p.grad is not None]
        if not parameters:
            continue
        limit = settings[role].max_grad_norm or float("inf")
        norms[role] = float(torch.nn.utils.clip_grad_norm_(parameters, limit))
        for parameter in parameters if role in dropped else ():
            parameter.grad = None
    return norms


PLACES: list[tuple[Any, str]] = [
    (_trl, "quick_turn"),
    (ddp, "clip_roles"),
    (PolicyModule, "train"),
    (JointConjecturerProverTrainer, "_get_grad_norm"),
]
WAYS: dict[str, list[Any]] = {
    "whole": [lambda *turn: nullcontext(), clip_always, PreTrainedModel.train, GRPOTrainer._get_grad_norm],
    "left out": [getattr(*place) for place in PLACES],
}


def measure(steps: int, warmup: int, shape: tuple[int, ...]) -> dict[str, list[float]]:
    """CPU seconds of each step. RuntimeError if the two ways differ in a weight."""
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        model = prepare_model("tiny", None, TOKENIZER, Path(folder))
        setting = Setting("tiny", model, *shape, steps + warmup, compact=True)
        trainers = {}
        for way in WAYS:
            trainers[way], phases, _ = build("joint", setting, f"{folder}/{way}")
            phases.on = False
        paced = {way: Paced(trainer) for way, trainer in trainers.items()}
        for i in range(steps + warmup):
            for way in list(WAYS)[:: 1 if i % 2 else -1]:
                for (owner, name), value in zip(PLACES, WAYS[way], strict=True):
                    setattr(owner, name, value)
                cpu = paced[way].step()[1]
                seconds[way] += [cpu] if i >= warmup else []
        for runner in paced.values():
            runner.join()
        one, other = (trainer.model.state_dict() for trainer in trainers.values())
        if any(not torch.equal(one[name], other[name]) for name in one):
            raise RuntimeError("The two ways ended with other weights: something that was left out was needed.")
    return seconds


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    made.add_argument("--steps", type=int, default=40, help="timed rounds of each way")
    made.add_argument("--quick", action="store_true", help="two small rounds, to see that everything runs")
    made.add_argument("--output", type=Path, help="JSON with all figures")
    return made


def main() -> None:
    options = parser().parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    steps, shape = (2, (8, 1, 1, 4, 8)) if options.quick else (options.steps, (64, 2, 1, 8, 16))
    seconds = measure(steps, 1 if options.quick else 2, shape)
    ratio = spread([less / whole for less, whole in zip(seconds["left out"], seconds["whole"], strict=True)])
    low, high = ratio["interval"]
    print(f"left out / whole (CPU time): {ratio['median']:.3f} [{low:.3f}, {high:.3f}]; equal weights")
    write_json(options.output, {"machine": machine(), "ratio": ratio, "seconds": seconds})


if __name__ == "__main__":
    main()
