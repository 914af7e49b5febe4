"""The problems of a track, made again from their seeds, and the withheld ones that a submission is measured on."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import partial
from typing import Any

from ...config import JointSelfPlayConfig
from ...config.recipes import over, recipe_fields
from ...countdown.planted import derivations
from ...countdown.problem import heldout_key
from ...domains import domain_from
from ..axes import of_axis
from .tracks import Track

WITHHELD = 4096
"""Problems of a rung, beyond the held-out ones, that withheld problems are drawn from."""


def domain_of(track: Track) -> Any:
    """The domain that the track's recipe and settings describe."""
    changes = over(dict(track.settings), dict(track.fixed))
    kept = {name: value for name, value in changes.items() if name in DOMAIN}
    fields = recipe_fields(track.recipe, kept, JointSelfPlayConfig)
    wanted = {name: value for name, value in fields.items() if name in DOMAIN}
    return domain_from(JointSelfPlayConfig(output_dir="unused", report_to="none", bf16=False, **wanted))


RANGES = ("operands", "number_low", "number_high", "target_low", "target_high", "value_high")
DOMAIN = {
    *RANGES,
    "domain",
    "domain_kwargs",
    "answers",
    "prover_prompt",
    "conjecturer_prompt",
    "use_all",
    "answer_rule",
}
"""Settings that a domain is made of."""


def text_of(track: Track, name: str) -> str:
    """The text of a set's file, from its seed alone; of targets that of all candidates."""
    domain = domain_of(track)
    if name == "targets":
        return lines(candidates(track, domain))
    return lines([plain(domain, problem) for problem in problems_of(track, name, domain)])


def problems_of(track: Track, name: str, domain: Any) -> list[Any]:
    """Rung by rung. None of the tuning problems is a held-out one."""
    asked = track.sets[name]
    if name == "held_out":
        made = [_each(track, domain, asked.each, partial(_held_out, domain, rung)) for rung in track.measured]
    else:
        held_out = frozenset(domain.key(problem) for problem in problems_of(track, "held_out", domain))
        draws = [partial(_random, domain, rung, asked.seed, held_out) for rung in track.measured]
        made = [_each(track, domain, asked.each, draw) for draw in draws]
    return [problem for own in made for problem in own]


def _held_out(domain: Any, rung: int, n: int) -> list[Any]:
    return list(domain.held_out_of_rung(n, rung))


def _random(domain: Any, rung: int, seed: int, held_out: frozenset[str], n: int) -> list[Any]:
    return list(domain.random_of_rung(n, rung, seed, held_out))


def _each(track: Track, domain: Any, n: int, draw: Callable[[int], list[Any]]) -> list[Any]:
    """`n` problems of a rung; over a plane as many of each cell."""
    for axis, values in track.bands.items():
        own = of_axis(domain, draw, axis, dict.fromkeys(values, n // len(values)))
        return [problem for value in values for problem in own[value]]
    return draw(n)


def task(track: Track, domain: Any, seed: int, held_out: frozenset[str]) -> list[Any]:
    """The problems that a job's anchors are drawn from, as likely of every scored rung."""
    return [one for rung in track.rungs for one in domain.random_of_rung(track.task, rung, seed, held_out)]


def withheld(track: Track, domain: Any, rung: int, n: int, seed: int) -> list[Any]:
    """`n` problems of the held-out side that are not in the held-out set, drawn by `seed`."""
    measured = track.sets["held_out"].each
    fresh = domain.held_out_of_rung(measured + WITHHELD, rung)[measured:]
    return random.Random(f"withheld|{seed}|{rung}").sample(fresh, n)


def candidates(track: Track, domain: Any) -> list[dict[str, Any]]:
    """Countdown in moves: planted problems of the scored rungs on the training side, each with the moves that solve
    it, as many as are asked for."""
    assert track.targets is not None
    found: dict[str, dict[str, Any]] = {}
    for rung in track.rungs:
        draws, wanted = (
            derivations(rung, domain.spec, f"targets {track.targets.seed}"),
            len(found) + track.targets.each,
        )
        while len(found) < wanted:
            one = next(draws)
            if one is not None and not heldout_key(one[0].key):
                found.setdefault(one[0].key, {**plain(domain, one[0]), "moves": one[1]})
    return list(found.values())


def plain(domain: Any, problem: Any) -> dict[str, Any]:
    """A problem as a row without its prompt."""
    return {name: value for name, value in domain.prove_row(problem).items() if name != "prompt"}


def lines(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)
