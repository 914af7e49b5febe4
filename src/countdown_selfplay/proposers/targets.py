"""Self-guided self-play (SGS): a fixed set of targets, and proposals of steps towards unsolved ones."""

import copy
import logging
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from inspect import signature
from itertools import cycle, islice
from typing import Any

import numpy as np

from ..contract.domain import in_moves
from ..contract.game import Outcome, Proposal
from ..contract.round import Round, Turn
from ..errors import ConfigError, DataError
from ..registry import Count
from . import unsupported
from .metrics import BINS, LAST_SOLVED, STORIES, TARGETS
from .policies import Policies

logger = logging.getLogger(__name__)

_STATE = ("known", "solved", "history", "presolve", "stories", "waiting", "aside", "mastered")
"""Attributes of Targets in a checkpoint, which also holds the attempted targets."""

TRAINABLE = 0.5
"""Largest solve rate at which a solved synthetic problem is trained on (REINFORCE^1/2)."""

DEEP = 3
"""Depth of the shallowest solution from which a problem is complex, as in the rubric (countdown/guide.py)."""

COPY = "copies_target"
"""Reason for refusing a proposal that is a target."""


class Targets(Policies):
    """Policies whose requests are for steps towards unsolved targets, and which choose the targets that are played.
    Targets are the problems of the data set, each once; unsolvable ones are set aside with a warning. A proposal that
    is itself a target is refused (`copies_target`): attempts at it would count as attempts at the target. The
    conjecturer's `num_generations` is the number of synthetic problems per unsolved target (1 in SGS). Without a
    conjecturer this is plain RL on the targets, the baseline of SGS. State: the targets, the unsolvable problems, the
    attempted targets, the order of batches, and by target the round that first solved it (it stays solved) and the
    earlier attempts with a trainable synthetic problem.

    batch: targets per round, every target once before one is repeated; None: all of them, as in SGS. fill: the next
    targets take slots that proposals leave empty, so that a round has problems_per_round problems; no synthetic
    problems are requested for them. conditioned: whether the conjecturer sees the target; if False (an ablation of
    SGS), it gets the same number of requests, for any problem."""

    needs: Sequence[str] = ()
    metrics = TARGETS
    chooses_targets = True
    shows: Sequence[str] = ("target",)
    """Arguments of the domain's `propose_row` by which a request shows a target (STP: and its answer)."""

    def __init__(self, batch: Count | None = None, conditioned: bool = True, fill: bool = False) -> None:
        super().__init__()
        self.batch, self.conditioned, self.fill = batch, conditioned, fill
        self.problems: dict[str, Any] = {}  # targets by key; like `form` not in the state
        self.form: dict[str, float] = {}
        self.known: list[str] = []
        self.solved: dict[str, int] = {}
        self.history: dict[str, str] = {}
        self.presolve: list[list[float]] = []
        self.stories: list[list[Any]] = []  # [key, round, history] of the targets solved last
        self.waiting: list[str] = []
        self.aside: list[str] = []
        self.attempted: set[str] = set()
        self.mastered: list[str] = []  # targets that every answer solved at the first attempt
        self.chosen: list[str] = []
        self.added: list[str] = []  # targets of the round in empty slots
        self.copied: float | None = None  # share of the round's proposals
        self.values: dict[str, float] = {}

    def check(self, players: Mapping[str, Sequence[str]], domain: Any) -> None:
        """Raise ConfigError if there is a conjecturer and the domain's `propose_row` does not take `shows`."""
        if players.get("conjecturer") and not _takes(domain.propose_row, self.shows):
            shown = " and ".join(f"`{name}`" for name in self.shows)
            cure = "set `conjecturer_players` to 0 to play the targets alone"
            raise unsupported(f"`proposer` ({type(self).__name__})", domain, f"`propose_row` of {shown}", cure)

    # -- played problems ---------------------------------------------------------------------------------------------

    def targets(self, round: Round, anchors: Sequence[Any]) -> list[Any]:
        if not self.problems:
            self._begin(round)
        count = len(self.known) if self.batch is None else min(self.batch, len(self.known))
        self._refuse_small(round, count)
        self.chosen = list(self.known) if count == len(self.known) else self._next(round, count)
        self.added = []
        return [self.problems[key] for key in self.chosen]

    def more_targets(self, round: Round, count: int) -> list[Any]:
        count = min(count, len(self.known) - len(self.chosen)) if self.fill else 0
        self.added = self._next(round, count, self.chosen) if count else []
        return [self.problems[key] for key in self.added]

    def per_target(self, round: Round) -> int:
        """Return the number of synthetic problems for each unsolved target of a round; 0 without a conjecturer."""
        players = round.players("conjecturer")
        return round.group(players[0]) if players else 0

    def asks(self, round: Round, player: str, groups: int, anchors: Sequence[Any]) -> list[Mapping[str, Any]]:
        players = round.players("conjecturer")
        return self.requests(round)[players.index(player) :: len(players)]  # several players alternate

    def requests(self, round: Round) -> list[Mapping[str, Any]]:
        """Return one request for each unsolved target of the round."""
        unsolved = [self.problems[key] for key in self.chosen if key not in self.solved]
        return [{"target": problem if self.conditioned else None} for problem in unsolved]

    def propose(self, round: Round, anchors: Sequence[Any]) -> list[Proposal]:
        proposals = super().propose(round, anchors)
        copied = [p.reason == "ok" and round.domain.key(p.problem) in self.problems for p in proposals]
        self.copied = sum(copied) / len(proposals) if proposals else None
        return [replace(p, reason=COPY) if same else p for p, same in zip(proposals, copied, strict=True)]

    def _begin(self, round: Round) -> None:
        """Read the targets, set unsolvable ones aside, and drop the state of those no longer in the data set."""
        problems = {round.domain.key(problem): problem for problem in round.dataset()}
        check = round.domain.check  # domains without proposals may lack it
        checked = [] if check is None else check(list(problems.values()), [None] * len(problems))
        self.aside = [key for key, one in zip(problems, checked, strict=False) if one.reason == "unsolvable"]
        self.problems = {key: problem for key, problem in problems.items() if key not in set(self.aside)}
        if not self.problems:
            raise DataError(f"The target set is empty: of {len(problems)} problems of the data set none is solvable.")
        if self.aside and round.rank == 0:
            message = "%d of %d targets have no solution and are set aside: %s"
            logger.warning(message, len(self.aside), len(problems), _few(self.aside))
        if self.known and round.rank == 0 and (difference := _difference(self.known, list(self.problems))):
            logger.warning("The target set has changed: %s", difference)
        self.known, self.form = list(self.problems), _forms(round.domain, list(self.problems.values()), "targets/set")
        self.waiting = [key for key in self.waiting if key in self.problems]
        self.solved = {key: at for key, at in self.solved.items() if key in self.problems}
        self.attempted &= self.problems.keys()
        self.mastered = [key for key in self.mastered if key in self.problems]
        self.history = {key: self.history.get(key, "") for key in self.known if key not in self.solved}

    def _next(self, round: Round, count: int, beside: Sequence[str] = ()) -> list[str]:
        """Take the next `count` targets of the order of batches, without those of `beside`, which keep their place."""
        taken = [key for key in self.waiting if key not in beside][:count]
        self.waiting = [key for key in self.waiting if key not in taken]
        if len(taken) < count:
            again = sorted(self.known)
            random.Random(round.seed("targets", *beside[:1])).shuffle(again)
            new = [key for key in again if key not in (*taken, *beside)][: count - len(taken)]
            taken, self.waiting = [*taken, *new], [*self.waiting, *(key for key in again if key not in new)]
        return taken

    def _refuse_small(self, round: Round, count: int) -> None:
        slots, synthetic = round.slots("prover"), count * self.per_target(round)
        written = round.slots("conjecturer") * len(round.players("conjecturer"))
        if count + synthetic > slots:
            raise ConfigError(
                f"A round has {count} targets and up to {synthetic} synthetic problems, and `problems_per_round` is "
                f"{slots}; raise it to {count + synthetic}, or set `batch` in proposer_kwargs to "
                f"{max(1, slots * count // (count + synthetic))}."
            )
        if written and synthetic > written:
            raise ConfigError(
                f"A round has up to {synthetic} synthetic problems, and the conjecturers write {written}; raise "
                "`proposals_per_round`, or set a smaller `batch` in proposer_kwargs."
            )

    # -- results ----------------------------------------------------------------------------------------------------

    def learn(self, round: Round, outcome: Outcome) -> list[Turn]:
        turns = super().learn(round, outcome)
        keys, rate_P = [round.domain.key(problem) for problem in outcome.problems], outcome.solve_rate_P
        trainable_P = (rate_P > 0) & (rate_P <= TRAINABLE)
        played = {index for index in outcome.problem_of if index is not None}
        right = [key for key, rate in zip(keys, rate_P, strict=True) if rate > 0]
        new = [key for key in dict.fromkeys(right) if key in self.problems and key not in self.solved]
        for key, helped in self._helped(round, outcome, trainable_P).items():
            if key not in new:  # a history ends before the round that solves its target
                self.history[key] += "1" if helped else "0"
        self.solved |= dict.fromkeys(new, round.index + 1)
        for key in new:
            story = self.history.pop(key)
            self.stories = [*self.stories, [key, round.index + 1, story]][-LAST_SOLVED:]
            history = np.array([float(c) for c in story])
            if len(history) >= BINS:
                self.presolve.append([float(part.mean()) for part in np.array_split(history, BINS)])
        self.presolve = self.presolve[-LAST_SOLVED:]
        if new and len(self.solved) == len(self.known) and round.rank == 0:
            message = "All %d targets are solved after %d rounds: nothing more is proposed; take harder ones to go on."
            logger.warning(message, len(self.known), round.index + 1)
        rates = {key: rate for i, (key, rate) in enumerate(zip(keys, rate_P, strict=True)) if i not in played}
        self._report_mastered(round, {key: rate for key, rate in rates.items() if key in self.problems})
        hits = [rates[key] > 0 for key in [*self.chosen, *self.added] if key in rates]
        self.values = self._measured(len(new), hits)
        if self.per_target(round):
            self.values["targets/trainable"] = int(trainable_P[sorted(played)].sum())
        if outcome.proposals:
            self.values["targets/asked"] = len(outcome.proposals)
        made = [problem for i, problem in enumerate(outcome.problems) if i in played]
        self.values |= self.form | _forms(round.domain, made, "targets/problem") if made else {}
        return turns

    def _report_mastered(self, round: Round, rates: Mapping[str, float]) -> None:
        """Record and log targets that every answer solved at the first attempt. rates: the round's solve rates."""
        first = {key: rate for key, rate in rates.items() if key not in self.attempted}
        mastered = [key for key, rate in first.items() if rate == 1]
        self.attempted |= first.keys()
        self.mastered += mastered
        if mastered and round.rank == 0:
            message = (
                "%d of %d targets that were attempted first in round %d were solved by every answer (a pass@1 of 1): "
                "%s. They get no synthetic problems and teach next to nothing; `countdown-selfplay dataset "
                "--hard_for` finds harder ones."
            )
            logger.warning(message, len(mastered), len(first), round.index + 1, _few(mastered))

    def _measured(self, new: int, hits: list[bool]) -> dict[str, float]:
        """Return the metrics of the targets. new: number solved first in this round. hits: success by attempt."""
        values: dict[str, float] = {
            "targets/solve_rate": len(self.solved) / len(self.known),
            "targets/unsolved": len(self.known) - len(self.solved),
            "targets/newly_solved": new,
            "targets/attempted": len(self.attempted) / len(self.known),
            "targets/set_aside": len(self.aside),
            "targets/mastered": len(self.mastered),
        }
        if hits:
            values["targets/pass_at_n"] = sum(hits) / len(hits)
        if self.copied is not None:
            values["targets/copied"] = self.copied
        if self.presolve:
            means = np.mean(self.presolve, axis=0).tolist()
            values |= {f"targets/presolve_{k}": mean for k, mean in enumerate(means)}
        return values

    def _helped(self, round: Round, outcome: Outcome, trainable_P: np.ndarray) -> dict[str, bool]:
        """Return, by unsolved target of the round, whether a synthetic problem for it is trainable."""
        if not self.conditioned or not self.per_target(round):
            return {}
        helped = dict.fromkeys((key for key in self.chosen if key not in self.solved), False)
        for proposal, index in zip(outcome.proposals, outcome.problem_of, strict=True):
            if proposal.request["target"] is not None and index is not None and trainable_P[index]:
                helped[round.domain.key(proposal.request["target"])] = True
        return helped

    def logged(self) -> dict[str, float]:
        return self.values

    def run_files(self) -> dict[str, Any]:
        """Return the file STORIES: histories of the targets solved last (figure 5, left), and unsolvable problems."""
        return {STORIES: {"solved": self.stories, "aside": self.aside}}

    def state_dict(self) -> dict[str, Any]:
        attempted = [key for key in self.known if key in self.attempted]
        return {**{name: copy.deepcopy(getattr(self, name)) for name in _STATE}, "attempted": attempted}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.problems = {}
        for name in _STATE:
            setattr(self, name, copy.deepcopy(state[name]))
        self.attempted = set(state["attempted"])

    @staticmethod
    def changed(state: Mapping[str, Any], keys: Sequence[str]) -> str:
        """Describe how a data set with the problems `keys` differs from that of a saved `state`."""
        there = [*state["known"], *state["aside"]]
        return _difference(there, list(dict.fromkeys(keys))) or "the same ones, in another order or number"


class STP(Targets):
    """Baseline of SGS 2026, appendix F.2 (Dong and Ma 2025, arXiv 2502.00212): Targets whose conjecturer sees a solved
    target with a right answer, and not an unsolved one. A round requests as many problems as it has unsolved targets,
    so that both methods spend the same generations; solved targets are shown in turn, in a random order per round. No
    problem is requested before a target is solved. A target's answer is the first right one. State:
    that of Targets, and the answers.

    SGS specifies only conditioning on solved problems, reward by the solve rate, and expert iteration as the solver's
    objective. From Dong and Ma: the answer in the prompt, and imitation of conjectures with a solve rate of at most
    1/4: `conjecturer_reward: binary_band` with {low: 0.01, high: 0.25} and `conjecturer_objective: rest`. Their filter
    for short proofs of long statements and their weights for topics of unproved ones are not implemented."""

    shows = ("variant_of", "solution")

    def __init__(self, batch: Count | None = None) -> None:
        super().__init__(batch)
        self.answers: dict[str, str] = {}

    def requests(self, round: Round) -> list[Mapping[str, Any]]:
        """Return one request for each unsolved target of the round; [] before the first target is solved."""
        shown = [key for key in self.known if key in self.answers]
        random.Random(round.seed("stp")).shuffle(shown)
        turns = islice(cycle(shown), sum(key not in self.solved for key in self.chosen))
        return [{"variant_of": self.problems[key], "solution": self.answers[key]} for key in turns]

    def learn(self, round: Round, outcome: Outcome) -> list[Turn]:
        turns = super().learn(round, outcome)
        for problem, text in zip(outcome.problems, outcome.solution_P, strict=True):
            key = round.domain.key(problem)
            if text is not None and key in self.solved:
                self.answers.setdefault(key, text)
        return turns

    def _helped(self, round: Round, outcome: Outcome, trainable_P: np.ndarray) -> dict[str, bool]:
        return {}  # no problem is requested as a step towards an unsolved target

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "answers": self.answers}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.answers = dict(state["answers"])


def _takes(propose_row: Any, shown: Sequence[str]) -> bool:
    """Return whether a domain's `propose_row` takes these arguments and requires no other."""
    try:
        return propose_row is not None and bool(signature(propose_row).bind(**dict.fromkeys(shown)))
    except TypeError:
        return False


def _difference(there: Sequence[str], here: Sequence[str]) -> str:
    """Describe which targets were added and removed; "" if they are the same."""
    new = [key for key in here if key not in set(there)]
    gone = [key for key in there if key not in set(here)]
    return f"{len(new)} new ({_few(new)}), {len(gone)} gone ({_few(gone)})" if new or gone else ""


def _few(keys: Sequence[str]) -> str:
    return ", ".join(keys[:3]) + (", ..." if len(keys) > 3 else "") if keys else "none"


def _forms(domain: Any, problems: Sequence[Any], prefix: str) -> dict[str, float]:
    """Return mean size and share of complex problems as `<prefix>_size` and `<prefix>_complex`; {} without a problem,
    and for a domain without such features. In moves: only the mean rung, as size. An unsolvable problem is complex."""
    if problems and in_moves(domain):  # complexity is defined by whole solutions, and needs a solver
        return {f"{prefix}_size": float(np.mean([domain.rung(problem) for problem in problems]))}
    names = [] if domain.mutations is None else list(domain.mutations.feature_names)
    if not problems or not {"operands", "depth_min", "needs_fraction"} <= set(names):
        return {}
    found_PF = domain.mutations.features(problems)
    size_P, depth_P, fraction_P = (found_PF[:, names.index(n)] for n in ("operands", "depth_min", "needs_fraction"))
    complex_P = np.isnan(depth_P) | (depth_P >= DEEP) | (fraction_P == 1)
    return {f"{prefix}_size": float(size_P.mean()), f"{prefix}_complex": float(complex_P.mean())}
