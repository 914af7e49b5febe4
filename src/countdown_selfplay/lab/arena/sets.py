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
DOMAIN = {"operands", "number_low", "number_high", "target_low", "target_high", "value_high", "domain"}
DOMAIN |= {"domain_kwargs", "answers", "prover_prompt", "conjecturer_prompt", "use_all", "answer_rule"}
"""Settings that a domain is made of."""


def domain_of(track: Track) -> Any:
    """The domain that the track's recipe and settings describe."""
    changes = over(dict(track.settings), dict(track.fixed))
    kept = {name: value for name, value in changes.items() if name in DOMAIN}
    fields = recipe_fields(track.recipe, kept, JointSelfPlayConfig)
    wanted = {name: value for name, value in fields.items() if name in DOMAIN}
    return domain_from(JointSelfPlayConfig(output_dir="unused", report_to="none", bf16=False, **wanted))


def text_of(track: Track, name: str) -> str:
    """The text of a set's file, from its seed alone; of targets that of all candidates."""
    domain = domain_of(track)
    if name == "targets":
        return lines(candidates(track, domain))
    return lines([plain(domain, problem) for problem in problems_of(track, name, domain)])


def problems_of(track: Track, name: str, domain: Any) -> list[Any]:
    """Rung by rung. None of the tuning problems is a held-out one."""
    asked, problems = track.sets[name], list[Any]()
    draw: Callable[..., list[Any]] = domain.held_out_of_rung
    if name != "held_out":
        held_out = frozenset(domain.key(problem) for problem in problems_of(track, "held_out", domain))
        draw = partial(domain.random_of_rung, seed=asked.seed, exclude=held_out)
    for rung in track.measured:
        if not track.bands:
            problems += draw(asked.each, rung=rung)
        for axis, values in track.bands.items():  # as many of each cell
            own = of_axis(domain, partial(draw, rung=rung), axis, dict.fromkeys(values, asked.each // len(values)))
            problems += [problem for value in values for problem in own[value]]
    return problems


def task(track: Track, domain: Any, seed: int, held_out: frozenset[str]) -> list[Any]:
    """The problems that a job's anchors are drawn from, as likely of every scored rung."""
    return [one for rung in track.rungs for one in domain.random_of_rung(track.task, rung, seed, held_out)]


def withheld(track: Track, domain: Any, rung: int, n: int, seed: int) -> list[Any]:
    """`n` problems of the held-out side that are not in the held-out set, drawn by `seed`."""
    measured = track.sets["held_out"].each
    fresh = domain.held_out_of_rung(measured + WITHHELD, rung)[measured:]
    return random.Random(f"withheld|{seed}|{rung}").sample(fresh, n)


def candidates(track: Track, domain: Any) -> list[dict[str, Any]]:
    """Countdown in moves: planted training problems of the scored rungs, each with the moves that solve it."""
    assert track.targets is not None
    found: dict[str, dict[str, Any]] = {}
    for rung in track.rungs:
        draws = derivations(rung, domain.spec, f"targets {track.targets.seed}")
        wanted = len(found) + track.targets.each
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
