"""What a domain is: problems, how they are put to a role, and who is right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

P = TypeVar("P")
Row = dict[str, Any]
"""What a role is asked: "prompt" (a text, or a chat), and plain columns that reward functions get."""


class Verdict(Protocol):
    """The judgement on one answer. One of a checker that may fail also has `unchecked`, a bool: it came to no verdict;
    `<prover>/unchecked_rate` is logged of it."""

    @property
    def correct(self) -> bool: ...
    @property
    def score(self) -> float: ...
    @property
    def reason(self) -> Any: ...


class Parsed(Protocol):
    """What was read in a proposal: a problem, or None and why."""

    @property
    def problem(self) -> Any: ...
    @property
    def reason(self) -> Any: ...


@dataclass(frozen=True)
class Checked:
    """Whether a problem may be played."""

    reason: str = "ok"
    """ "ok", or one word for the refusal, which is counted and which a reward may look at."""
    facts: Mapping[str, bool] = field(default_factory=dict)
    """What was found on the way, such as {"in_range": True}: logged as `<proposer>/<fact>_rate` over all proposals."""


class Domain(Protocol[P]):
    """An answer-checked domain. Equal on every process; `verify` and `check` take batches, for a domain may hand them
    to a pool of workers."""

    def problem(self, row: Mapping[str, Any], index: int = 0) -> P:
        """The problem of a data set's row; DataError names row and column."""
        ...

    def key(self, problem: P) -> str:
        """Its identity: equal problems have equal keys."""
        ...

    def prove_row(self, problem: P) -> Row:
        """A row that asks for a solution, rendered from the problem alone. `problem` reads it back."""
        ...

    def verify(self, texts: Sequence[str], problems: Sequence[P]) -> list[Any]:
        """One Verdict per answer; never raises on any text."""
        ...

    def stop_strings(self, role: str) -> list[str] | None:
        """Where the generation of `role` ends besides the end token. `role`: a kind, or a player such as prover/0."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """What a result must record: ranges, rules, prompt styles. Plain JSON."""
        ...


class OpenDomain(Domain[P], Protocol):
    """A domain in which problems can be proposed."""

    @property
    def asks(self) -> Sequence[Mapping[str, Any]]:
        """What proposers are asked for in turn: keyword arguments of `propose_row`."""
        ...

    @property
    def facts(self) -> Sequence[str]:
        """Names of the facts that `check` finds out."""
        ...

    def propose_row(self, *args: Any, **asked: Any) -> Row:
        """A row that asks for a problem: called with what is asked for as keyword arguments."""
        ...

    def parse(self, texts: Sequence[str]) -> list[Any]:
        """One Parsed per proposal; never raises on any text."""
        ...

    def check(self, problems: Sequence[P], asked: Sequence[Mapping[str, Any] | None]) -> list[Checked]:
        """Whether each may be played, and is what was asked for."""
        ...

    def random(self, n: int, seed: int, exclude: frozenset[str]) -> list[P]:
        """`n` distinct playable problems, a function of the arguments alone, none with a key in `exclude`. Where there
        are fewer: all of them, or a DataError."""
        ...


class SplitDomain(Domain[P], Protocol):
    """A domain that keeps some problems out of training for good. Without these two, held-out problems are random ones
    with a seed of their own, left out of a run's training by key."""

    def held_out(self, n: int) -> list[P]:
        """`n` problems of the held-out side, always the same; `random` makes none of that side."""
        ...

    def is_held_out(self, problem: P) -> bool: ...


class MoveDomain(Domain[P], Protocol):
    """A domain in which an answer is given in moves, each to a fresh prompt. A domain that can be played both ways has
    an attribute `answers`, "moves" or another word (`in_moves`)."""

    @property
    def most_moves(self) -> int:
        """The most moves of any episode: a bound that memory is planned with."""
        ...

    def begin(self, problem: P) -> Any:
        """The state in which an episode begins: plain data, as every state."""
        ...

    def move_row(self, problem: P, state: Any) -> Row:
        """A row that asks for the next move; the state is all that the player needs, nothing is remembered."""
        ...

    def moved(self, texts: Sequence[str], problems: Sequence[P], states: Sequence[Any]) -> list[Any]:
        """After one move each: the next state, or the Verdict on the episode, which is what has an attribute
        `correct`; never raises on any text."""
        ...

    def rung(self, problem: P) -> int:
        """The step of the ladder that it stands on, such as its size: what tables and proposers group by."""
        ...


class ProbedDomain(MoveDomain[P], Protocol):
    """A MoveDomain with rungs (RungDomain) whose prover is asked, before a run, whether it can write a move at all
    (training/format_probe.py)."""

    @property
    def move_format(self) -> str:
        """How a move is to be written: what a message says is expected."""
        ...

    def was_legal(self, verdict: Any) -> bool:
        """Whether the move that ended an episode with this verdict was legal; those that go on were."""
        ...


class RungDomain(Domain[P], Protocol):
    """A domain whose problems come in rungs of rising difficulty."""

    @property
    def rungs(self) -> Sequence[int]:
        """All rungs, ascending."""
        ...

    def rung(self, problem: P) -> int: ...

    def random_of_rung(self, n: int, rung: int, seed: int, exclude: frozenset[str]) -> list[P]:
        """`random` of one rung."""
        ...

    def held_out_of_rung(self, n: int, rung: int) -> list[P]:
        """`held_out` of one rung."""
        ...


class TextDomain(Domain[P], Protocol):
    """What proposers need that ask whether proposals are solvable: uniform_texts, and policies with `repair`."""

    def random_text(self, n: int, seed: int, exclude: frozenset[str]) -> list[P]:
        """`n` distinct problems, uniform over what can be proposed and solvable or not; none with a key in `exclude`
        or of the held-out side."""
        ...

    def repaired(self, problem: P, seed: int) -> P | None:
        """A problem as like this one as can be that is solvable by construction, of the same rung and not of the
        held-out side; None where none was found."""
        ...


def in_moves(domain: Any) -> bool:
    """Whether the domain's answers are given in moves."""
    return callable(getattr(domain, "moved", None)) and getattr(domain, "answers", "moves") == "moves"


class SymbolicDomain(OpenDomain[P], Protocol):
    """What symbolic proposers (Task Difficulty and Diversity) need besides. Arrays have a row per problem."""

    @property
    def number_actions(self) -> Sequence[str]:
        """What may be done to a seed problem."""
        ...

    @property
    def expression_actions(self) -> Sequence[str]:
        """What kind of solution a candidate may be made to ask for."""
        ...

    @property
    def feature_names(self) -> Sequence[str]:
        """The columns of `features`."""
        ...

    def mutate(
        self, seeds: Sequence[P], number_actions: Sequence[str], expression_actions: Sequence[str], seed: int
    ) -> Any:
        """One candidate per seed and pair of actions: an object with `problems` (None: there is none), `reasons`
        ("ok", or why it is refused) and `features` (N, features)."""
        ...

    def features(self, problems: Sequence[P]) -> Any:
        """(P, features) what a difficulty predictor sees."""
        ...

    def novelty(self, problems: Sequence[P], feature_set: int, features_PF: Any = None) -> Any:
        """(P, columns) each in [0, 1]: where a problem lies among others."""
        ...

    def structures(self, problems: Sequence[P]) -> Any:
        """(P, structures) the share of a problem's solutions that have each structure. Only `features: learned` asks
        for it."""
        ...

    def seed_features(self, problems: Sequence[P]) -> Any:
        """(P, columns) about [0, 1]: what may be known of a problem without solving it."""
        ...

    def problem_of_key(self, key: str) -> P:
        """A problem with this key. Where a key stands for several presentations of one problem, such as orders of its
        numbers, a method `reordered(problem, seed)` should draw one: generated problems are shown in it."""
        ...
