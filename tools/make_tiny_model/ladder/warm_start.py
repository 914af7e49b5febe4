"""The warm starts of the ladder's three models, on planted problems of the split's train side.

The prover learns moves for two and three numbers, the conjecturer writes problems of all sizes, and the asked
conjecturer also problems of a size and problems that help with a target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random

import torch
from transformers import Qwen3ForCausalLM

from countdown_selfplay.countdown import CONJECTURER_PROMPTS, PROVER_PROMPTS, Problem
from countdown_selfplay.countdown.helping import HELP_PROMPTS
from countdown_selfplay.countdown.planted import (
    VALUE_HIGH,
    Derivation,
    demonstrated,
    derive,
    planted_problems,
    states_of,
)
from countdown_selfplay.countdown.problem import heldout_key
from countdown_selfplay.countdown.prompts import PROPOSAL_TEXTS
from countdown_selfplay.tiny import LADDER_SPEC
from countdown_selfplay.warm_starts.rows import FAR, KINDS, STEP

from ..warm_start import WarmStart, encode_batch, fit
from .model import CONJECTURER, PROVER, Shape, build

Example = tuple[str, str]
"""Prompt and answer."""

PROVER_OPERANDS = (2,) * 3 + (3,) * 7
"""Three problems in ten have two numbers, seven have three, none has more."""


def moves_shown(n: int, seed: int) -> list[Example]:
    """`n` moves, each behind a prompt of its own as in play: the model never sees the moves before. No prompt is a
    held-out problem, whichever of its moves it belongs to."""
    spec = replace(LADDER_SPEC, operands=PROVER_OPERANDS)
    prompt = PROVER_PROMPTS["compact_moves"]
    shown: list[Example] = []
    for derivation in demonstrated(n, spec, seed):  # each has one move at least
        for state, move in zip(states_of(derivation), derivation[1], strict=True):
            shown.append((str(prompt(Problem(tuple(state), derivation[0].target))), move))
    return shown[:n]


def proposals_shown(n: int, seed: int, largest: int | None = None) -> list[Example]:
    """`n` distinct problems as the conjecturer writes them, of 3 to `largest` numbers (None: the ladder's 20)."""
    spec = LADDER_SPEC if largest is None else replace(LADDER_SPEC, operands=tuple(range(3, largest + 1)))
    prompt = str(CONJECTURER_PROMPTS["compact_any"](3, spec))
    return [(prompt, PROPOSAL_TEXTS["compact_any"](problem)) for problem in planted_problems(n, spec, seed)]


TARGET_OPERANDS = (4, 5, 6, 7, 8, 9)
"""Sizes of the targets that a help is shown for."""


def asked_shown(n: int, seed: int) -> list[Example]:
    """`n` problems as the asked conjecturer writes them: of four, two help with a target, one has the size that is
    named, and one has any size."""
    spec, prompts = LADDER_SPEC, CONJECTURER_PROMPTS
    targets = iter(demonstrated(n, replace(spec, operands=TARGET_OPERANDS), seed))
    planted, draws = planted_problems(n, spec, seed), Random(f"asked|{seed}")
    shown: list[Example] = []
    for i, problem in enumerate(planted):
        prompt = prompts["compact" if i % 4 == 1 else "compact_any"](len(problem.numbers), spec)
        if i % 2 == 0:
            derivation = next(targets)
            prompt = HELP_PROMPTS["compact"](derivation[0], spec)
            problem = help_shown(derivation, problem, draws)
        shown.append((str(prompt), PROPOSAL_TEXTS["compact"](problem)))
    return shown


def help_shown(derivation: Derivation, other: Problem, draws: Random) -> Problem:
    """A help with the problem of a derivation, of the kinds of countdown/helping.py: a later state of the derivation,
    with three numbers at least; a planted problem with its numbers, of which one is another or is absent; or
    `other`."""
    target, kind = derivation[0], KINDS[int(draws.random() * len(KINDS))]
    if kind == STEP:
        later = [state for state in states_of(derivation)[1:] if len(state) >= min(LADDER_SPEC.operands)]
        return Problem(tuple(later[int(draws.random() * len(later))]), target.target)
    while kind != FAR:
        numbers = list(target.numbers)
        del numbers[int(draws.random() * len(numbers))]
        if draws.random() < 0.5:
            numbers.insert(int(draws.random() * (len(numbers) + 1)), 1 + int(draws.random() * LADDER_SPEC.number_high))
        found = derive(numbers, VALUE_HIGH, draws)
        if found is not None and found[1] <= LADDER_SPEC.target_high:
            near = Problem(tuple(numbers), found[1])
            if not heldout_key(near.key) and near.key != target.key:
                return near
    return other


@dataclass(frozen=True)
class LadderStart:
    """How one of the three models is made."""

    shape: Shape
    settings: WarmStart
    examples: Callable[[int, int], list[Example]]
    """(how many, seed) -> examples, in the order in which they are learnt from."""


STARTS = {
    "prover": LadderStart(PROVER, WarmStart(steps=1000, batch_size=216, threads=1), moves_shown),
    "conjecturer": LadderStart(CONJECTURER, WarmStart(steps=250, batch_size=176, threads=1), proposals_shown),
    "asked": LadderStart(CONJECTURER, WarmStart(steps=400, batch_size=176, threads=1), asked_shown),
}
"""Settings of the shipped weights."""


def train(
    role: str,
    seed: int = 0,
    steps: int | None = None,
    on_step: Callable[[int, float], None] | None = None,
    largest: int | None = None,
) -> Qwen3ForCausalLM:
    """The model of a role after its warm start; the same arguments give the same bits on the same machine. largest:
    the most numbers in a problem that the conjecturer sees; None: the ladder's."""
    start = STARTS[role]
    settings = replace(start.settings, seed=seed, steps=start.settings.steps if steps is None else steps)
    model = build(start.shape, seed, role)
    examples = start.examples(settings.steps * settings.batch_size, seed)
    if largest is not None and role == "conjecturer":
        examples = proposals_shown(settings.steps * settings.batch_size, seed, largest)
    return fit(model, _batches(examples, settings.batch_size), settings, on_step)


def _batches(examples: Sequence[Example], size: int) -> Iterator[dict[str, torch.Tensor]]:
    # Padding stands on the right, behind all that causal attention reads: without a mask attention is faster.
    for first in range(0, len(examples), size):
        ids, labels = encode_batch(examples[first : first + size])
        yield {"input_ids": ids, "labels": labels}
