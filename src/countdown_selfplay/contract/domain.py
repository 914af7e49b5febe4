"""Interface of a domain: its problems, the prompts of each role, and the verifier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Generic, Protocol, TypeVar

P = TypeVar("P")
Row = dict[str, Any]
"""Request to a role: "prompt" (a text or a chat), and plain columns for the reward functions."""


class Verdict(Protocol):
    """Judgement of one answer. A verifier that can fail also sets `unchecked`, True if it reached no verdict; the
    share of such answers is logged as `<prover>/unchecked_rate`."""

    @property
    def correct(self) -> bool: ...
    @property
    def score(self) -> float: ...
    @property
    def reason(self) -> Any: ...


class Parsed(Protocol):
    """Result of parsing a proposal: a problem, or None and the reason."""

    @property
    def problem(self) -> Any: ...
    @property
    def reason(self) -> Any: ...


@dataclass(frozen=True)
class Checked:
    """Result of checking whether a problem may be played."""

    reason: str = "ok"
    """Reason of a refusal, in one word, or "ok". Refusals are counted, and a reward may depend on them."""
    facts: Mapping[str, bool] = field(default_factory=dict)
    """Properties of the problem, such as {"in_range": True}; logged as `<proposer>/<fact>_rate` over all proposals."""


class BaseDomain(Generic[P]):
    r"""Base class of domains whose answers a verifier checks. A subclass implements six methods: `problem`, `key`,
    `prove_row`, `verify`, `stop_strings` and `to_dict`. All other methods and attributes are optional; None means that
    the domain lacks the part. A domain must give equal results on all processes. `verify` and `check` take batches, so
    that a domain can use a pool of workers.

    Example::

        >>> from collections import namedtuple
        >>> Judged = namedtuple("Judged", "correct score reason")
        >>> class Sums(BaseDomain):
        ...     def problem(self, row, index=0): return row["a"], row["b"]
        ...     def key(self, problem): return "{}+{}".format(*problem)
        ...     def prove_row(self, problem): return {"prompt": f"{self.key(problem)}="}
        ...     def verify(self, texts, problems):
        ...         return [Judged(t == str(sum(p)), float(t == str(sum(p))), "") for t, p in zip(texts, problems)]
        ...     def stop_strings(self, role): return ["\n"]
        ...     def to_dict(self): return {"domain": "sums"}
        >>> Sums().verify(["8"], [(3, 5)])[0].correct
        True
    """

    def problem(self, row: Mapping[str, Any], index: int = 0) -> P:
        """Return the problem of a data set's row. Raises DataError, which names `index` and column, if invalid."""
        raise NotImplementedError

    def key(self, problem: P) -> str:
        """Return the problem's identity: equal problems have equal keys."""
        raise NotImplementedError

    def prove_row(self, problem: P) -> Row:
        """Return a row that requests a solution, rendered from the problem alone, from which `problem` restores it."""
        raise NotImplementedError

    def verify(self, texts: Sequence[str], problems: Sequence[P]) -> list[Any]:
        """Return one Verdict per answer. Must not raise, whatever the texts are."""
        raise NotImplementedError

    def stop_strings(self, role: str) -> list[str] | None:
        """Return the strings that end a completion, or None if there are none. `role`: role, or player such as
        prover/0."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Return the facts that a result must record (ranges, rules, prompt styles), as plain JSON."""
        raise NotImplementedError

    from_config: Any = None
    """Class method `from_config(countdown, answers)`, which builds the domain from Countdown's settings. None: the
    domain is built with `domain_kwargs`."""
    spec: Any = None
    """Ranges of the problems, for rewards that use them (`RewardContext.spec`)."""
    rules: Any = None
    """Rules of a valid answer, for rewards that use them."""

    cures: Mapping[str, str] = MappingProxyType({})
    """Declared name of a metric (`{prover}/format_rate`) -> remedy that replaces the metric's `cure`, such as a
    setting of the domain."""

    # Data sets

    columns: Sequence[str] = ()
    """Columns of a data set that hold the problem."""

    def outside(self, problem: P) -> str | None:
        """Return a sentence on how the problem exceeds the domain's ranges, or None for a problem in range."""
        return None

    def unreadable(self, problems: Sequence[P]) -> list[int]:
        """Return the indices of problems whose right answer the verifier cannot read."""
        return []

    def is_held_out(self, problem: P) -> bool:
        """Return whether the problem is permanently excluded from training."""
        return False

    held_out: Any = None
    """`held_out(n)`: the first n problems of the held-out split, of which `random` draws none. None: held-out problems
    are drawn with a separate seed, and problems with the same keys are excluded from training."""
    longest: Any = None
    """Problem whose prompt is one of the longest."""

    def cut_by(self, role: str, stops: Sequence[str]) -> str | None:
        """Return a text in the role's format that these stop strings would cut too early to be read, or None."""
        return None

    # Proposals

    @property
    def asks(self) -> Sequence[Mapping[str, Any]]:
        """Requests that proposers get in rotation: keyword arguments of `propose_row`."""
        return ()

    @property
    def facts(self) -> Sequence[str]:
        """Names of the facts in `Checked.facts`."""
        return ()

    admit_unsolvable = False
    """Whether proposals without a solution may be played."""
    propose_row: Any = None
    """`propose_row(**request)`: row that requests a problem."""
    parse: Any = None
    """`parse(texts)`: one Parsed per proposal. Must not raise, whatever the texts are."""
    check: Any = None
    """`check(problems, requests)`: one Checked per problem, "ok" if it may be played and matches its request. A
    request is an entry of `asks`, or None (demonstrations), for which only the problem is checked."""
    random: Any = None
    """`random(n, seed, exclude)`: n distinct playable problems with no key in `exclude`, deterministic given the
    arguments. If fewer exist, it returns all of them or raises DataError."""
    random_text: Any = None
    """`random_text(n, seed, exclude)`: n distinct problems, uniform over all that can be proposed, solvable or not;
    none has a key in `exclude` or is held out."""
    repaired: Any = None
    """`repaired(problem, seed)`: a similar solvable problem of the same rung that is not held out, or None."""

    # Proposals that state only levels of difficulty parameters, from which `drawn` then draws a problem

    undrawn: Any = None
    """`undrawn(problem)`: the problem of a proposal that states only this problem's levels, as `parse` returns it."""
    drawn: Any = None
    """`drawn(problems, seed, exclude)`: for each problem a playable one with its levels, or None. The results are
    distinct, deterministic given the arguments, not held out, and without a key in `exclude`. Absent: `parse` reads
    whole problems."""

    # Rungs of rising difficulty

    @property
    def rungs(self) -> Sequence[int]:
        """All rungs, ascending."""
        return ()

    rung: Any = None
    """`rung(problem)`: the problem's level of difficulty, such as its size, by which tables are grouped."""
    random_of_rung: Any = None
    """`random_of_rung(n, rung, seed, exclude)`: `random`, restricted to one rung."""
    held_out_of_rung: Any = None
    """`held_out_of_rung(n, rung)`: `held_out`, restricted to one rung."""

    def axes(self, problem: P) -> dict[str, Any]:
        """Return the problem's position on each axis of difficulty, by name, the rung first: a number, a band such as
        "13-25", or None out of range. Metrics by position reveal a conjecturer that avoids part of an axis."""
        return {} if self.rung is None else {"rung": self.rung(problem)}

    # Answers in moves, each to a fresh prompt

    answers: str = ""
    """Form of the answers in a domain that supports two: "moves", or another word. "": the domain has one form."""

    @property
    def most_moves(self) -> int:
        """Largest number of moves of an episode; a longer episode is cut and counts as wrong."""
        return 0

    begin: Any = None
    """`begin(problem)`: first state of an episode. States are plain data."""
    move_row: Any = None
    """`move_row(problem, state)`: row that requests the next move. The player sees no earlier move."""
    moved: Any = None
    """`moved(texts, problems, states)`: for each move the next state, or the Verdict on the episode, recognised by its
    attribute `correct`. Must not raise, whatever the texts are."""

    @property
    def move_format(self) -> str:
        """Description of a move's format. If the domain also has `was_legal`, `rungs` and `random_of_rung`, a run
        first tests whether its prover can write a legal move (training/evaluation.py)."""
        return ""

    was_legal: Any = None
    """`was_legal(verdict)`: whether the move that ended an episode was legal."""
    demonstrations: Any = None
    """`demonstrations(n, seed, rungs, exclude)`: n right answers, each a list of (row, text), one entry per move."""

    # Parts: None if the domain lacks them

    @property
    def critique(self) -> Critique | None:
        """Interface for the Critic-Discernment Game and its evaluations."""
        return None

    @property
    def helping(self) -> Helping | None:
        """Interface for guides, which score a problem as a step towards a target."""
        return None

    @property
    def mutations(self) -> Mutations | None:
        """Interface for symbolic proposers."""
        return None


Domain = BaseDomain
OpenDomain = BaseDomain
"""Names for annotations; an OpenDomain is a domain in which problems can be proposed."""


def ended(moved: Any) -> bool:
    """Return whether a result of `moved` is a verdict and not the next state."""
    return hasattr(moved, "correct")


def in_moves(domain: Any) -> bool:
    """Return whether the domain's answers are given in moves."""
    return domain.moved is not None and domain.answers in ("", "moves")


class Critique:
    r"""Base class of a domain's critiques and revisions. Attributes that default to None serve evaluations and DPO.

    Example::

        >>> class Essays(Critique):
        ...     def critique_row(self, problem, answer): return {"prompt": f"{problem} {answer} Wrong where?"}
        ...     def read_critique(self, text, answer): return text.strip() or None
        ...     def revise_row(self, problem, answer, critique): return {"prompt": f"{problem} {answer} {critique}"}
        ...     def rejections(self, text): return text.count("The critique is wrong.")
        >>> Essays().hints_rejection("The critique is wrong. I keep 8.")
        True
    """

    def critique_row(self, problem: Any, answer: str) -> Row:
        """Return a row that asks for the first mistake in `answer`. Helpful and misleading critics get the same row,
        so that style reveals neither (Wang et al., appendix A)."""
        raise NotImplementedError

    def read_critique(self, text: str, answer: str) -> str | None:
        """Return the part of a critique of `answer` that the prover sees, or None for an unusable critique."""
        raise NotImplementedError

    def revise_row(self, problem: Any, answer: str, critique: str) -> Row:
        """Return a row that shows the prover its answer and a critique of unknown intent."""
        raise NotImplementedError

    def rejections(self, text: str) -> int:
        """Count the rejections of the critique in a revision, in the requested form."""
        raise NotImplementedError

    def hints_rejection(self, text: str) -> bool:
        """Return whether a revision rejects the critique in any form, by default only in that of `rejections`."""
        return self.rejections(text) > 0

    recheck_row: Any = None
    """`recheck_row(problem, answer)`: row that asks the prover to check its answer, without a critique."""
    steps: Any = None
    """`steps(problem, answer)`: steps of an answer in order; [] if none can be read."""
    step_row: Any = None
    """`step_row(problem, answer, step)`: row that asks whether a step of an answer is right."""
    calls_wrong: Any = None
    """`calls_wrong(text)`: whether a reply to `step_row` calls the step wrong; None if it does not answer."""
    first_wrong: Any = None
    """`first_wrong(problem, answer)`: index in `steps` of the first wrong step, or None. Absent: annotators decide."""
    annotate_row: Any = None
    """`annotate_row(problem, steps)`: row that asks an annotator for the first wrong step."""
    cut_at_mistake: Any = None
    """`cut_at_mistake(problem, answer)`: (text before the part with the first wrong step, that part), or None without
    such a step. For `algorithm: step_dpo`."""


class Helping:
    """Base class of a domain's reviews, which score a problem as a step towards solving a target (SGS 2026).

    Example::

        >>> from types import SimpleNamespace
        >>> class Nearness(Helping):
        ...     def review(self, target, problem, solution=None):
        ...         return SimpleNamespace(score=max(0, 8 - abs(target - problem)))
        >>> Nearness().review(24, 22).score
        6
    """

    def review(self, target: Any, problem: Any, solution: str | None = None) -> Any:
        """Return the review, an object with a `score` from 0 to 8. `solution`: a right answer to the problem."""
        raise NotImplementedError

    review_row: Any = None
    """`review_row(target, problem, solution)`: row that asks a model for the review."""
    read_review: Any = None
    """`read_review(text)`: the review in a model's answer, or None."""


class Mutations:
    """Base class of a domain's edits of problems for symbolic proposers (Task Difficulty and Diversity). Arrays have
    one row per problem.

    Example::

        >>> import numpy as np
        >>> class Integers(Mutations):
        ...     feature_names = ("size",)
        ...     def features(self, problems): return np.array(problems, dtype=float)[:, None]
        ...     def novelty(self, problems, feature_set=13, features_PF=None): return self.features(problems) / 100
        ...     def problem_of_key(self, key): return int(key)
        >>> Integers().features([3, 12]).shape
        (2, 1)
    """

    number_actions: Sequence[str] = ()
    """Names of the edits of a seed problem."""
    expression_actions: Sequence[str] = ()
    """Names of the solution types that a candidate can be made to require."""
    feature_names: Sequence[str] = ()
    """Column names of `features`."""

    def mutate(
        self, seeds: Sequence[Any], number_actions: Sequence[str], expression_actions: Sequence[str], seed: int
    ) -> Any:
        """Return one candidate per seed problem and its two actions: an object with `problems` (None: no candidate),
        `reasons` ("ok", or the reason of a refusal) and `features` (N, features)."""
        raise NotImplementedError

    def features(self, problems: Sequence[Any]) -> Any:
        """Return the inputs of a difficulty predictor, (P, features)."""
        raise NotImplementedError

    def novelty(self, problems: Sequence[Any], feature_set: int = 13, features_PF: Any = None) -> Any:
        """Return coordinates for distances, (P, columns) in [0, 1]. `feature_set`: number of features, 7 or 13, on
        which the coordinates are based. `features_PF`: result of `features`, if known."""
        raise NotImplementedError

    def seed_features(self, problems: Sequence[Any]) -> Any:
        """Return features, (P, columns), of about 0 to 1, that can be computed without solving the problem."""
        raise NotImplementedError

    def problem_of_key(self, key: str) -> Any:
        """Return a problem with this key."""
        raise NotImplementedError

    def reordered(self, problem: Any, seed: int) -> Any:
        """Return the problem in another presentation with the same key, such as an order of its numbers."""
        return problem
