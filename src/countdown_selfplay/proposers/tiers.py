"""Pool of conjecturers, one per tier of difficulty (Multimodal LLM Self-Play)."""

import copy
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Ge, MinLen

from ..contract.domain import in_moves
from ..contract.game import Outcome, Proposal
from ..contract.round import Round, Turn
from ..countdown import Problem
from ..countdown.domain import CountdownDomain
from ..data.jsonl import json_file
from ..errors import CheckpointError, ConfigError
from ..registry import Count, Share
from . import unsupported
from .metrics import TIERS
from .policies import Policies

TIER_CONFIG = "tier_config.json"

_LOW, _HIGH = 1, 12
"""Range of the numbers of problems made by the rule (Multimodal LLM Self-Play)."""

_PATIENCE = 10_000
"""Number of consecutive draws without a new problem after which the supplement ends."""

_APPLY = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}

LONGEST_WINDOW = 8
"""Largest window under `hysteresis`, as a multiple of the initial one."""


@dataclass
class TierTracker:
    """Tracker of tiers: a tier moves one rung up its ladder if its mean pass rate is above `high`, one down if it is
    below `low`. JSON state; equal on every process.

    window: rounds over which rates are averaged, emptied at each move; 1 in Multimodal LLM Self-Play. hysteresis: a
    tier that reverses doubles its window, to at most LONGEST_WINDOW x `window`; one that moves twice in one direction
    gets `window` again. Without hysteresis a tier too easy on one rung and too hard on the next keeps moving."""

    rungs: list[int]
    """Rung of each tier on its ladder, from 0, the easiest, to `top`."""
    top: int
    low: float = 0.2
    high: float = 0.7
    window: int = 1
    hysteresis: bool = False
    rates: list[list[float]] = field(default_factory=list)
    """Pass rates of each tier since its last move, at most the last `windows` of them."""
    windows: list[int] = field(default_factory=list)
    last_moves: list[int] = field(default_factory=list)
    """Last move of each tier: 1, -1, or 0 before the first."""

    def __post_init__(self) -> None:
        if not 0 <= self.low < self.high <= 1:
            raise ConfigError(f"`low` ({self.low}) and `high` ({self.high}) must satisfy 0 <= low < high <= 1.")
        self.rates = self.rates or [[] for _ in self.rungs]
        self.windows = self.windows or [self.window] * len(self.rungs)
        self.last_moves = self.last_moves or [0] * len(self.rungs)

    def observe(self, rates: Sequence[float | None]) -> list[int]:
        """Add the mean pass rate of each tier (None: nothing played), move tiers, return their moves: 1, -1 or 0."""
        return [0 if rate is None else self._observe(tier, rate) for tier, rate in enumerate(rates)]

    def _observe(self, tier: int, rate: float) -> int:
        seen = self.rates[tier] = [*self.rates[tier], float(rate)][-self.windows[tier] :]
        if len(seen) < self.windows[tier]:
            return 0
        mean = sum(seen) / len(seen)
        wanted = 1 if mean > self.high else -1 if mean < self.low else 0
        move = min(max(self.rungs[tier] + wanted, 0), self.top) - self.rungs[tier]
        if move:
            if self.hysteresis and self.last_moves[tier]:
                longer = min(self.windows[tier] * 2, self.window * LONGEST_WINDOW)
                self.windows[tier] = longer if move != self.last_moves[tier] else self.window
            self.rungs[tier] += move
            self.rates[tier], self.last_moves[tier] = [], move
        return move

    def state_dict(self) -> dict[str, Any]:
        return {name: copy.deepcopy(getattr(self, name)) for name in ("rungs", "rates", "windows", "last_moves")}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name in ("rungs", "rates", "windows", "last_moves"):
            setattr(self, name, copy.deepcopy(state[name]))


class Tiers(Policies):
    """Policies in which conjecturer k gets requests of tier k, which a tracker makes harder or easier by the provers'
    pass rates; a rule supplies problems to tiers with too few (Multimodal LLM Self-Play, sections 3.2 to 3.8). A
    tier's pass rate is the mean over its played problems of any origin. The domain's `asks` set the other
    properties of a request.

    start: initial rung of each tier on the `axis`, such as operand counts 3 and 4, or the path of the
    tier_config.json of a run to continue. There are as many tiers as conjecturers; without any conjecturer the rule
    alone makes problems. low, high, window, hysteresis: see TierTracker.
    axis: property that makes a tier harder: "operands" from `floor` to `ceiling`, or "rung" (of a domain such as
    `verifiers`), with `levels`, the rungs from easy to hard.
    or_more: the last tier requests its operand count "or more", and accepts more (section 3.3).
    min_valid: least number of playable problems of a tier; the rule supplies the missing ones, which provers attempt
    and train on, and which earn no conjecturer a reward. 0: never.
    """

    needs: Sequence[str] = ()
    metrics = TIERS

    def __init__(
        self,
        start: Sequence[Any] | str = (3, 4),
        low: Share = 0.2,
        high: Share = 0.7,
        floor: Count = 2,
        ceiling: Count = 6,
        window: Count = 1,
        hysteresis: bool = False,
        axis: Literal["operands", "rung"] = "operands",
        levels: Annotated[list[int], MinLen(1)] | None = None,
        or_more: bool = True,
        min_valid: Annotated[int, Ge(0)] = 6,
    ) -> None:
        super().__init__()
        self.axis, self.or_more, self.min_valid = axis, or_more, min_valid
        self.names = _values(axis, floor, ceiling, levels)
        self.ladder: list[dict[str, Any]] = [{axis: value} for value in self.names]
        start = _read(start, axis) if isinstance(start, str) else list(start)
        outside = [value for value in start if value not in self.names]
        if not start or outside:
            raise ConfigError(
                f"`start` ({start}) of the tiers must list a rung for each tier, from {self.names[0]!r} to "
                f"{self.names[-1]!r} ({axis}); Multimodal LLM Self-Play uses [3, 4], from 2 on."
            )
        if len(start) > len(self.names):
            raise ConfigError(
                f"`start` ({start}) of the tiers has {len(start)} tiers and there are {len(self.names)} rungs "
                f"({self.names}, {axis}); raise `ceiling`, list more `levels`, or have fewer tiers."
            )
        rungs = [self.names.index(value) for value in start]
        self.tracker = TierTracker(rungs, len(self.names) - 1, low, high, window, hysteresis)
        self.tier_N: list[int] = []  # of each proposal of the round
        self.values: dict[str, float] = {}  # the round's metrics

    @property
    def count(self) -> int:
        """Number of tiers."""
        return len(self.tracker.rungs)

    def check(self, players: Mapping[str, Sequence[str]], domain: Any) -> None:
        """Raise ConfigError unless each tier has a conjecturer, or none has, and the domain can play every rung."""
        conjecturers = len(players.get("conjecturer", ()))
        if conjecturers not in (0, self.count):
            raise ConfigError(
                f"`proposer_kwargs.start` has {self.count} tiers and there are {conjecturers} conjecturers; give each "
                "conjecturer (`roles.conjecturer.players`) a tier, or set 0 of them for problems made by the rule."
            )
        if not conjecturers and not self.min_valid:
            raise ConfigError(
                "`proposer` (tiers) has neither a conjecturer nor a `min_valid`; set `roles.conjecturer.players` or "
                "`proposer_kwargs.min_valid`."
            )
        known = None if domain.spec is None else domain.spec.operands
        for rung in self.ladder:
            if known is not None and rung.get("operands", known[0]) not in known:
                raise ConfigError(
                    f"The tiers ask for {rung['operands']} operands, and `operands` ({list(known)}) admits no problem "
                    "of that size; list it there, or move `floor` and `ceiling` of proposer_kwargs."
                )
            if "rung" in rung and (domain.random_of_rung is None or rung["rung"] not in domain.rungs):
                there = ", ".join(map(str, domain.rungs)) or "none"
                raise ConfigError(
                    f"The tiers ask for rung {rung['rung']}, and the domain's rungs are {there}; list some in "
                    "`levels`, or take another proposer."
                )
            if "rung" in rung and not conjecturers:  # the rule makes these without a sample
                continue
            if domain.propose_row is None or not domain.asks:
                cure = "set `axis` of proposer_kwargs to rung, with `levels`, if it has rungs"
                raise unsupported(f"A tier that asks for {rung}", domain, "`asks` and `propose_row`", cure)
            try:
                domain.propose_row(**{**domain.asks[0], **rung})
            except TypeError as error:
                raise ConfigError(
                    f"A tier asks for {rung}, and the domain's `propose_row` refuses it ({error}); set `axis` of "
                    "proposer_kwargs to what it takes, or to rung without a conjecturer."
                ) from None

    def ask(self, tier: int, base: Mapping[str, Any]) -> dict[str, Any]:
        """Return the request of a tier: the domain's request, overridden by the tier's rung."""
        request = {**base, **self.ladder[self.tracker.rungs[tier]]}
        more = self.or_more and tier == self.count - 1 and "operands" in self.ladder[0]
        return {**request, "or_more": True} if more else request

    def asks(self, round: Round, player: str, groups: int, anchors: Sequence[Any]) -> list[Mapping[str, Any]]:
        tier = round.players("conjecturer").index(player)
        return [self.ask(tier, base) for base in super().asks(round, player, groups, anchors)]

    def propose(self, round: Round, anchors: Sequence[Any]) -> list[Proposal]:
        players = round.players("conjecturer")
        proposals = super().propose(round, anchors)
        self.tier_N = [players.index(str(p.by)) for p in proposals]
        self.values = {}
        if proposals:
            copied = sum(p.reason == "copied_example" for p in proposals)
            self.values["valid_conjecture_rate"] = sum(p.problem is not None for p in proposals) / len(proposals)
            self.values["copied_example_rate"] = copied / len(proposals)
        seen = frozenset(round.domain.key(p.problem) for p in proposals if p.problem is not None) | round.held_out
        bases = round.domain.asks or [{}]
        for tier in range(self.count):
            usable = [p for p, t in zip(proposals, self.tier_N, strict=False) if t == tier and p.reason == "ok"]
            valid = {round.domain.key(p.problem) for p in usable} - round.held_out
            request = self.ask(tier, bases[round.index % len(bases)])
            missing = max(self.min_valid - len(valid), 0)
            made = supplement(round.domain, request, missing, round.seed("supplement", tier), seen)
            seen |= {round.domain.key(problem) for problem in made}
            self.values[f"tier_{tier}_supplement"] = len(made)
            proposals += [Proposal(problem, request=request) for problem in made]
            self.tier_N += [tier] * len(made)
        return proposals

    def learn(self, round: Round, outcome: Outcome) -> list[Turn]:
        """Credit the conjecturers, then move the tiers."""
        rate_P, played = outcome.solve_rate_P, list(zip(self.tier_N, outcome.problem_of, strict=True))
        places = [sorted({i for t, i in played if t == tier and i is not None}) for tier in range(self.count)]
        rates = [float(np.mean([rate_P[i] for i in indices])) if indices else None for indices in places]
        self.tracker.observe(rates)
        everything = sorted({i for indices in places for i in indices})
        if everything:
            self.values["mean_prover_pass_rate"] = float(np.mean([rate_P[i] for i in everything]))
        for tier, rate in enumerate(rates):
            rung = self.tracker.rungs[tier]
            self.values[f"tier_{tier}_rung"] = rung
            if "operands" in self.ladder[rung]:
                self.values[f"tier_{tier}_operand_count"] = self.ladder[rung]["operands"]
            if rate is not None:
                self.values[f"prover_pass_rate_tier_{tier}"] = rate
        return super().learn(round, outcome)

    def logged(self) -> dict[str, float]:
        return dict(self.values)

    def files(self) -> dict[str, Any]:
        """Return tier_config.json, for checkpoints and exported players; `start` of a later run can read it."""
        tiers = [self.names[rung] for rung in self.tracker.rungs]
        return {TIER_CONFIG: {"axis": self.axis, "tiers": tiers, "asks": self._asked(self.tracker.rungs)}}

    def state_dict(self) -> dict[str, Any]:
        return {**self.tracker.state_dict(), "axis": self.axis, "asks": self._asked(self.tracker.rungs)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state. Raises CheckpointError if its rungs differ from those of these tiers."""
        there, here = (state["axis"], state["asks"]), (self.axis, self._asked(state["rungs"]))
        if there != here or len(state["rungs"]) != self.count:
            raise CheckpointError(
                f"The checkpoint's tiers are at {there[1]} (axis {there[0]}); this run has {self.count} tiers and the "
                f"rungs {self.names} (axis {here[0]}); keep the number of tiers, `axis`, `levels`, `floor` and "
                "`ceiling` of that run."
            )
        self.tracker.load_state_dict(state)

    def _asked(self, rungs: Sequence[int]) -> list[dict[str, Any] | None]:
        return [dict(self.ladder[rung]) if rung < len(self.ladder) else None for rung in rungs]


def _values(axis: str, floor: int, ceiling: int, levels: Sequence[int] | None) -> list[int]:
    """Return the rungs from easy to hard, as they are named in `start`."""
    if levels is not None:
        return list(levels)
    if axis != "operands":
        raise ConfigError(f"`axis` ({axis}) of the tiers needs `levels`, its rungs from easy to hard.")
    if floor > ceiling:
        raise ConfigError(f"`floor` ({floor}) of the tiers must be at most `ceiling` ({ceiling}).")
    return list(range(floor, ceiling + 1))


def _read(path: str, axis: str) -> list[Any]:
    written = json_file(Path(path), f"`start` of the tiers wants a list, or a {TIER_CONFIG}", tiers=list, axis=str)
    tiers, theirs = written["tiers"], written["axis"]
    if theirs != axis:
        raise ConfigError(f"'{path}' is of tiers on the axis {theirs}, and this run's `axis` is {axis}.")
    return tiers


def supplement(domain: Any, request: Mapping[str, Any], count: int, seed: int, exclude: frozenset[str]) -> list[Any]:
    """Return up to `count` distinct problems for a request, none with a key in `exclude` or held out, deterministic
    given the arguments. Countdown: `operands` integers from 1 to 12, joined from left to right by random operations,
    drawn again until the result is a positive integer and the problem in range, so that all are solvable. Other
    domains draw random problems, of the requested rung if any; so does Countdown in moves, and for a request without
    a size."""
    if "rung" in request:
        return list(domain.random_of_rung(count, request["rung"], seed, exclude))
    if in_moves(domain) and domain.random_of_rung is not None and request.get("operands") in domain.rungs:
        return list(domain.random_of_rung(count, request["operands"], seed, exclude))
    if not isinstance(domain, CountdownDomain) or domain.answers == "moves" or "operands" not in request:
        return list(domain.random(count, seed, exclude))
    draws, taken, misses = Random(seed), set(exclude), 0
    problems: list[Problem] = []
    while len(problems) < count and misses < _PATIENCE:
        problem = _draw(draws, request["operands"])
        fits = problem is not None and domain.in_range(problem) and domain.as_asked(problem, **request)
        if problem is None or not fits or problem.key in taken or domain.is_held_out(problem):
            misses += 1
            continue
        problems.append(problem)
        taken.add(problem.key)
        misses = 0
    return problems


def _draw(draws: Random, operands: int) -> Problem | None:
    """Draw a problem as in `supplement`; return None if the result is not a positive integer."""
    numbers = [draws.randint(_LOW, _HIGH) for _ in range(operands)]
    value = Fraction(numbers[0])
    for number in numbers[1:]:
        value = _APPLY[draws.choice("+-*/")](value, number)
    return Problem(tuple(numbers), int(value)) if value > 0 and value.denominator == 1 else None
