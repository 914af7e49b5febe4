"""What a domain is: problems, how they are put to a role, and who is right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Generic, Protocol, TypeVar

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


class BaseDomain(Generic[P]):
    """An answer-checked domain: six methods that each has, and defaults of the optional rest, None for a method or a
    part that a domain lacks. Equal on every process; `verify` and `check` take batches, for a domain may hand them to
    a pool of workers."""

    def problem(self, row: Mapping[str, Any], index: int = 0) -> P:
        """The problem of a data set's row; DataError names row and column."""
        raise NotImplementedError

    def key(self, problem: P) -> str:
        """Its identity: equal problems have equal keys."""
        raise NotImplementedError

    def prove_row(self, problem: P) -> Row:
        """A row that asks for a solution, rendered from the problem alone. `problem` reads it back."""
        raise NotImplementedError

    def verify(self, texts: Sequence[str], problems: Sequence[P]) -> list[Any]:
        """One Verdict per answer; never raises on any text."""
        raise NotImplementedError

    def stop_strings(self, role: str) -> list[str] | None:
        """Where the generation of `role` ends besides the end token. `role`: a kind, or a player such as prover/0."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """What a result must record: ranges, rules, prompt styles. Plain JSON."""
        raise NotImplementedError

    from_config: Any = None
    """A class method `from_config(countdown, answers)` of Countdown and what is derived from it; None: the domain is
    built with `domain_kwargs` as they are."""
    spec: Any = None
    """Ranges of its problems, for rewards that look at them (`RewardContext.spec`)."""
    rules: Any = None
    """What counts as an answer, likewise."""

    cures: Mapping[str, str] = MappingProxyType({})
    """Metric, as it is declared (`{prover}/format_rate`) -> the sentence with which a finding on it ends, in place of
    the declaration's own: it may name the domain's settings."""

    # Data sets

    columns: Sequence[str] = ()
    """Columns of data sets that hold the problem itself."""

    def outside(self, problem: P) -> str | None:
        """What lies beyond the domain's ranges, in words; None for a problem in range."""
        return None

    def unreadable(self, problems: Sequence[P]) -> list[int]:
        """The places of the problems whose right answer the checker cannot read."""
        return []

    def is_held_out(self, problem: P) -> bool:
        """Whether the problem is kept out of training for good."""
        return False

    held_out: Any = None
    """`held_out(n)`: n problems of the held-out side, always the same; `random` makes none of that side. None:
    held-out problems are random ones with a separate seed, left out of a run's training by key."""
    longest: Any = None
    """A problem with one of the longest prompts."""

    def cut_by(self, role: str, stops: Sequence[str]) -> str | None:
        """A text as the role is asked for that these stop strings would cut before its answer or problem can be read;
        None if they do not."""
        return None

    # Proposals

    @property
    def asks(self) -> Sequence[Mapping[str, Any]]:
        """What proposers are asked for in turn: keyword arguments of `propose_row`."""
        return ()

    @property
    def facts(self) -> Sequence[str]:
        """Names of the facts that `check` finds out."""
        return ()

    admit_unsolvable = False
    """Whether proposals without a solution may be played."""
    propose_row: Any = None
    """`propose_row(**asked)`: a row that asks for a problem."""
    parse: Any = None
    """`parse(texts)`: one Parsed per proposal; never raises on any text."""
    check: Any = None
    """`check(problems, asked)`: one Checked per problem: whether it may be played, and matches its request, an entry
    of `asks`. None is the absence of a request (a row of demonstrations): judge the problem alone."""
    random: Any = None
    """`random(n, seed, exclude)`: n distinct playable problems, a function of the arguments alone, none with a key in
    `exclude`. Where there are fewer: all of them, or a DataError."""
    random_text: Any = None
    """`random_text(n, seed, exclude)`: n distinct problems, uniform over what can be proposed and solvable or not;
    none with a key in `exclude` or of the held-out side."""
    repaired: Any = None
    """`repaired(problem, seed)`: a problem as like this one as can be that is solvable by construction, of the same
    rung and not of the held-out side; None where none was found."""

    # Proposals of levels: they leave open which problem of these levels is played

    undrawn: Any = None
    """`undrawn(problem)`: what `parse` reads in a proposal of the levels of a problem that was drawn."""
    drawn: Any = None
    """`drawn(problems, seed, exclude)`: for each problem that `parse` read one of its levels that can be played, all
    distinct, a function of the arguments alone, none with a key in `exclude` or of the held-out side; None where none
    was found. None: what `parse` reads is a whole problem."""

    # Rungs of rising difficulty

    @property
    def rungs(self) -> Sequence[int]:
        """All rungs, ascending."""
        return ()

    rung: Any = None
    """`rung(problem)`: the step of the ladder that it is on, such as its size: what tables and proposers group by."""
    random_of_rung: Any = None
    """`random_of_rung(n, rung, seed, exclude)`: `random` of one rung."""
    held_out_of_rung: Any = None
    """`held_out_of_rung(n, rung)`: `held_out` of one rung."""

    # Answers in moves, each to a fresh prompt

    answers: str = ""
    """Of a domain that can be played both ways: "moves", or another word. "": as it can be played."""

    @property
    def most_moves(self) -> int:
        """The most moves of any episode: a bound that memory is planned with."""
        return 0

    begin: Any = None
    """`begin(problem)`: the state in which an episode begins: plain data, as every state."""
    move_row: Any = None
    """`move_row(problem, state)`: a row that asks for the next move; the player remembers nothing else."""
    moved: Any = None
    """`moved(texts, problems, states)`: after one move each the next state, or the Verdict on the episode, which is
    what has an attribute `correct`; never raises on any text."""

    @property
    def move_format(self) -> str:
        """How a move is to be written. With `was_legal` a run probes, before it begins, whether its prover can write
        one (training/evaluation.py)."""
        return ""

    was_legal: Any = None
    """`was_legal(verdict)`: whether the move that ended an episode with this verdict was legal."""
    demonstrations: Any = None
    """`demonstrations(n, seed, rungs, exclude)`: n right answers, each a list of (row, text), one entry a move."""

    # Parts, None where the domain has none

    @property
    def critique(self) -> Critique | None:
        """For the Critic-Discernment Game and its evaluations."""
        return None

    @property
    def helping(self) -> Helping | None:
        """For guides, which judge a problem as a help with a target."""
        return None

    @property
    def mutations(self) -> Mutations | None:
        """For symbolic proposers."""
        return None


Domain = BaseDomain
OpenDomain = BaseDomain
"""The names in signatures; an OpenDomain is one in which problems can be proposed."""


def ended(moved: Any) -> bool:
    """Whether a result of `moved` is the verdict on an episode, and not the next state."""
    return hasattr(moved, "correct")


def in_moves(domain: Any) -> bool:
    """Whether the domain's answers are given in moves."""
    return domain.moved is not None and domain.answers in ("", "moves")


class Critique:
    """What a domain needs whose answers can be criticised and revised; the optional rest is for evaluations."""

    def critique_row(self, problem: Any, answer: str) -> Row:
        """A row that asks for the first mistake in `answer`. The same for a helpful and a misleading critic, so that
        no style gives them away (appendix A)."""
        raise NotImplementedError

    def read_critique(self, text: str, answer: str) -> str | None:
        """What the prover is shown of a critique of `answer`; None for one that cannot be used."""
        raise NotImplementedError

    def revise_row(self, problem: Any, answer: str, critique: str) -> Row:
        """A row that shows the prover its own answer and a critique of unknown intent."""
        raise NotImplementedError

    def rejections(self, text: str) -> int:
        """How often a revision says, in the form that it was asked for, that the critique is not critical."""
        raise NotImplementedError

    def hints_rejection(self, text: str) -> bool:
        """Whether a revision says so in any form. One that does without a clear rejection neither corrects an answer
        nor gives one up. The default: rejections have one form."""
        return self.rejections(text) > 0

    recheck_row: Any = None
    """`recheck_row(problem, answer)`: a row that asks the prover to check its answer again, without any critique."""
    steps: Any = None
    """`steps(problem, answer)`: the steps of an answer in order; [] where there are none to be read."""
    step_row: Any = None
    """`step_row(problem, answer, step)`: a row that asks whether a step of an answer is right."""
    calls_wrong: Any = None
    """`calls_wrong(text)`: whether a reply to `step_row` calls the step wrong; None if it says neither."""
    first_wrong: Any = None
    """`first_wrong(problem, answer)`: the place of an answer's first wrong step among its `steps`, None if none is
    wrong. Without it an annotator labels the steps."""
    annotate_row: Any = None
    """`annotate_row(problem, steps)`: a row that asks an annotator for the first wrong step."""
    cut_at_mistake: Any = None
    """`cut_at_mistake(problem, answer)`: (the text before it, the text of it), of the part of an answer in which its
    first wrong step ends; None for none. For `algorithm: step_dpo`."""


class Helping:
    """A domain's judgement of a problem as a help with a target (SGS 2026)."""

    def review(self, target: Any, problem: Any, solution: str | None = None) -> Any:
        """The rubric's judgement: an object with a `score` from 0 to 8. solution: a right answer to the problem."""
        raise NotImplementedError

    review_row: Any = None
    """`review_row(target, problem, solution)`: a row that asks a model for the same."""
    read_review: Any = None
    """`read_review(text)`: the review in its answer; None if there is none."""


class Mutations:
    """What symbolic proposers (Task Difficulty and Diversity) need. Arrays have a row per problem."""

    number_actions: Sequence[str] = ()
    """What may be done to a seed problem."""
    expression_actions: Sequence[str] = ()
    """What kind of solution a candidate may be made to ask for."""
    feature_names: Sequence[str] = ()
    """The columns of `features`."""

    def mutate(
        self, seeds: Sequence[Any], number_actions: Sequence[str], expression_actions: Sequence[str], seed: int
    ) -> Any:
        """One candidate per seed and pair of actions: an object with `problems` (None: there is none), `reasons`
        ("ok", or why it is refused) and `features` (N, features)."""
        raise NotImplementedError

    def features(self, problems: Sequence[Any]) -> Any:
        """(P, features) what a difficulty predictor sees."""
        raise NotImplementedError

    def novelty(self, problems: Sequence[Any], feature_set: int = 13, features_PF: Any = None) -> Any:
        """(P, columns) each in [0, 1]: where a problem lies among others; `features_PF`, if known, is what `features`
        returned."""
        raise NotImplementedError

    def seed_features(self, problems: Sequence[Any]) -> Any:
        """(P, columns) about [0, 1]: what may be known of a problem without solving it."""
        raise NotImplementedError

    def problem_of_key(self, key: str) -> Any:
        """A problem with this key."""
        raise NotImplementedError

    def reordered(self, problem: Any, seed: int) -> Any:
        """One of the presentations of a problem that share its key, such as orders of its numbers."""
        return problem
