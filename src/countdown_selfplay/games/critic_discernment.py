"""Critic-Discernment Game (Wang et al. 2025): solve, criticise, revise."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import torch
from annotated_types import Ge

from ..contract.domain import Critique
from ..contract.game import BaseGame
from ..contract.round import Rollout, Round, RoundResult, Turn
from ..errors import ConfigError
from ..objectives import make_objective
from ..proposers import unsupported
from ..registry import Amount, Count
from .health import examples, prover_health
from .metrics import CRITIC_METRICS

INTENDED = {"helpful": "corrected", "misleading": "misled"}
"""Critic -> the outcome that it is rewarded for."""

CRITICS = tuple(INTENDED)

Spoken = Mapping[str, tuple[list[int], Rollout]]
"""Critic -> indices of the answers that it criticises, and its critiques."""


@dataclass(frozen=True)
class Episode:
    """Revision of a first answer: indices of the answer and of its critique, and the outcome."""

    first: int
    """Index among this process's first answers."""
    critic: str
    critique: int
    """Index among that critic's critiques on this process."""
    outcome: str
    """Label: corrected, not_corrected (first answer wrong); resisted, kept, misled or unclear (first answer right)."""

    @property
    def success(self) -> bool:
        """Whether the revision corrects a wrong first answer, keeps a right one, or rejects the critique of it."""
        return self.outcome in ("corrected", "resisted", "kept")


def outcome_of(was_right: bool, is_right: bool, rejections: int, hinted: bool = False) -> str:
    """Return the outcome of a revision from the first answer's correctness, the verdict of the revision, the number of
    its rejections of the critique in the requested form, and whether it rejects in another form (hinted).

    As in the code of Wang et al., a resisted revision has exactly one rejection, whatever its new answer; corrected,
    kept and misled ones have none in any form. With several, or one in another form, a revision of a right answer is
    unclear. A revision of a right answer that contains no answer counts as misled."""
    rejects = bool(rejections) or hinted
    if not was_right:
        return "corrected" if is_right and not rejects else "not_corrected"
    if rejects:
        return "resisted" if rejections == 1 else "unclear"
    return "kept" if is_right else "misled"


def critique_of(domain: Any) -> Critique:
    """Return the domain's `critique` interface. Raises ConfigError without one."""
    if domain.critique is None:
        raise unsupported("The game critic_discernment", domain, "`critique`", "play countdown or math_qa")
    critique: Critique = domain.critique
    return critique


class CriticDiscernment(BaseGame):
    """Game in which each of the prover's answers is criticised, a wrong one by the helpful critic and a right one by
    the misleading critic, and then revised.

    Rewards (equations 1 to 3, as means over the revisions): a right first answer gets eta plus the share of its
    revisions that succeed (`Episode`), a wrong one the share that correct it; a revision gets 1 if it succeeds,
    plus eta after a right answer; a helpful critique gets the share of revisions that correct the answer, a misleading
    one the share that give it up. Unreadable critiques are not shown and get 0. Reward functions are only logged. A
    run may omit one critic (the ablations of section 5.2): then the answers that it would criticise get none.

    eta: weight of a right first answer; Wang et al. give no value. revisions: number per critique; the number of
    critiques per answer is the critics' num_generations (Wang et al.: 4 answers, 8 helpful or 4 misleading critiques,
    4 revisions). Without any critic, in the baselines of IteratedSelfPlay, there are only answers. first_credit:
    reward of a first answer: "game" (equation 1), or "answer" (1 if it is right: the filter of appendix B, for
    objectives that imitate). A round has problems_per_round questions; the answers determine how many critiques."""

    roles: ClassVar = {
        "prover": "answers, and revises its answer after a critique",
        "helpful": "criticises wrong answers; its critique shall mend them",
        "misleading": "criticises right answers; its critique shall spoil them",
    }
    optional_roles = CRITICS
    imitated = ("prover",)
    """Roles whose samples are marked for a supervised term (`sft_coef`): right first answers."""
    metrics = CRITIC_METRICS
    labels: ClassVar = {
        "prover": ("right", "wrong", "corrected", "not_corrected", "resisted", "kept", "misled", "unclear"),
        "helpful": ("shown", "unreadable"),
        "misleading": ("shown", "unreadable"),
    }
    """Role -> outcomes of its samples (`Turn.labels`)."""

    def __init__(
        self,
        eta: Amount = 0.5,
        revisions: Count = 4,
        first_credit: Literal["game", "answer"] = "game",
        samples_per_log: Annotated[int, Ge(0)] = 4,
    ) -> None:
        self.eta, self.revisions, self.first_credit = float(eta), revisions, first_credit
        self.samples_per_log = samples_per_log

    def to_dict(self) -> dict[str, Any]:
        """Return the arguments that affect training as plain JSON."""
        return {name: getattr(self, name) for name in ("eta", "revisions", "first_credit")}

    def check(self, args: Any) -> None:
        """Raise ConfigError without a critic, for two players of a role, for penalties without effect, and for `rest`
        as an objective that would imitate wrong samples (`_check_imitation`)."""
        for kind, players in args.players_by_kind.items():
            if len(players) > 1:
                raise ConfigError(f"`roles.{kind}.players` ({len(players)}) must be 1 in the game critic_discernment.")
        for charge, acts in (("length_penalty", "length_penalty"), ("soft_overlong", "added_overlong")):
            if getattr(args, acts, 0):
                raise ConfigError(
                    f"`{charge}` ({getattr(args, acts)}) has no effect in the game critic_discernment; set it to 0 "
                    "(soft_overlong: or overlong=replace)."
                )
        if not any(args.players_by_kind.get(kind) for kind in CRITICS):
            raise ConfigError(
                "The game critic_discernment needs a critic: configure roles.helpful or roles.misleading."
            )
        self._check_imitation(args.all_roles)

    def check_domain(self, domain: Any) -> None:
        """Raise ConfigError for a domain without critiques."""
        critique_of(domain)

    def _check_imitation(self, roles: dict[str, Any]) -> None:
        """Raise ConfigError if `rest` would imitate samples that equation 5 excludes (wrong ones with rewards > 0)."""
        prover = next((settings for name, settings in roles.items() if name.split("/")[0] == "prover"), None)
        if prover is None or prover.objective != "rest":
            return
        tau = getattr(make_objective("rest", prover.objective_kwargs), "tau")  # noqa: B009 -- rest alone has it
        if tau <= self.eta or self.first_credit != "answer":
            raise ConfigError(
                f"`roles.prover.objective` (rest, tau {tau}) would imitate revisions that give up a right answer "
                f"({self.eta}, the game's `eta`) and wrong first answers that are mended; set tau above eta, as in "
                "objective_kwargs {tau: 0.75}, and game_kwargs {first_credit: answer}."
            )

    def play(self, round: Round, anchors: Sequence[Any]) -> RoundResult:
        domain, (prover,) = round.domain, round.players("prover")
        critics = {kind: players[0] for kind in CRITICS if (players := round.players(kind))}

        # Solve.
        problems = round.share(anchors[: round.slots("prover")])
        first = round.sample(prover, [domain.prove_row(problem) for problem in problems], problems=problems)
        each = [problem for problem in problems for _ in range(first.n)]
        right = [verdict.correct for verdict in first.verdicts or []]

        # Criticise: wrong answers by the helpful critic, right ones by the misleading one.
        spoken: dict[str, tuple[list[int], Rollout]] = {}
        for kind, player in critics.items():
            about = [i for i, good in enumerate(right) if good == (kind == "misleading")]
            rows = [critique_of(domain).critique_row(each[i], first.texts[i]) for i in about]
            spoken[kind] = about, round.sample(player, rows)

        second, episodes, critiques = self._revise(round, first, each, right, spoken)

        # Credit, the outcome of each sample, and its problem.
        first_B, second_B = self._prover_rewards(right, episodes)
        turns = [round.credit(first, first_B, imitate_B=right)]
        turns.append(round.credit(second, second_B, correct_B=[float(e.success) for e in episodes]))
        turns[0].labels = ["right" if good else "wrong" for good in right]
        turns[1].labels = [episode.outcome for episode in episodes]
        about_of = [each, [each[episode.first] for episode in episodes]]
        for kind, (about, replies) in spoken.items():
            turn = round.credit(replies, _critic_rewards(kind, len(replies.texts), episodes))
            read = {episode.critique for episode in episodes if episode.critic == kind}
            turn.labels = ["shown" if j in read else "unreadable" for j in range(len(replies.texts))]
            turn.shown = critiques[kind]
            turns.append(turn)
            about_of.append([each[i] for i in about for _ in range(replies.n)])

        metrics = prover_health(round, first, turns[0].advantages_B) | self._health(round, right, spoken, episodes)
        known = round.gather(
            [(domain.key(p), sum(right[k * first.n : (k + 1) * first.n])) for k, p in enumerate(problems)]
        )
        samples = [
            sample
            for turn, on in zip(turns, about_of, strict=True)
            for sample in self._examples(round, turn, on, every_label=turn.rollout is second)
        ]
        return RoundResult(turns, metrics, samples, [(key, correct, first.n) for key, correct in known])

    def _revise(
        self, round: Round, first: Rollout, problems: Sequence[Any], right: Sequence[bool], spoken: Spoken
    ) -> tuple[Rollout, list[Episode], dict[str, list[str | None]]]:
        """Sample revisions after readable critiques; return them, their Episodes, and critic -> critiques as shown."""
        critic = critique_of(round.domain)
        shown: list[tuple[int, str, int]] = []
        rows, critiques = [], dict[str, list[str | None]]()
        for kind, (about, rollout) in spoken.items():
            of = [about[j // rollout.n] for j in range(len(rollout.texts))]
            critiques[kind] = [critic.read_critique(t, first.texts[i]) for t, i in zip(rollout.texts, of, strict=True)]
            for j, (i, critique) in enumerate(zip(of, critiques[kind], strict=True)):
                if critique is not None:
                    shown.append((i, kind, j))
                    rows.append(critic.revise_row(problems[i], first.texts[i], critique))
        second = round.sample(first.role, rows, n=self.revisions, problems=[problems[i] for i, _, _ in shown])
        about_of = [about for about in shown for _ in range(second.n)]
        episodes = []
        for (i, kind, j), text, verdict in zip(about_of, second.texts, second.verdicts or [], strict=True):
            end = outcome_of(right[i], verdict.correct, critic.rejections(text), critic.hints_rejection(text))
            episodes.append(Episode(i, kind, j, end))
        return second, episodes, critiques

    def planned(self, problems: int, group: Mapping[str, int]) -> dict[str, int]:
        """Return each player's largest number of samples: a critic's if it criticises all answers, the prover's if the
        critic with the most critiques does. `group`: samples per prompt, by player."""
        prover = next(player for player in group if player.split("/")[0] == "prover")
        answers = problems * group[prover]
        most = {player: answers * samples for player, samples in group.items() if player != prover}
        return {prover: answers + self.revisions * max(most.values(), default=0), **most}

    def _prover_rewards(self, right: Sequence[bool], episodes: Sequence[Episode]) -> tuple[list[float], list[float]]:
        """Return the rewards of first answers (equation 1, or `first_credit`) and of revisions."""
        ends: list[list[bool]] = [[] for _ in right]
        for episode in episodes:
            ends[episode.first].append(episode.success)
        first = [
            (sum(end) / len(end) if end else float(good)) + self.eta * good
            for end, good in zip(ends, right, strict=True)
        ]
        if self.first_credit == "answer":
            first = [float(good) for good in right]
        return first, [episode.success + self.eta * right[episode.first] for episode in episodes]

    def _health(
        self, round: Round, right: Sequence[bool], spoken: Spoken, episodes: Sequence[Episode]
    ) -> dict[str, float]:
        """Return the rates of outcomes over all processes."""
        counts = Counter(episode.outcome for episode in episodes)
        counts |= {"answers": len(right), "right": sum(right)}
        for kind, (_, rollout) in spoken.items():
            counts[f"{kind} said"] = len(rollout.texts)
            counts[f"{kind} shown"] = len({e.critique for e in episodes if e.critic == kind})
        total: Counter[str] = sum(round.gather([counts]), Counter())
        wrong_turns = total["corrected"] + total["not_corrected"]
        right_turns = total["resisted"] + total["kept"] + total["misled"] + total["unclear"]
        success = total["corrected"] + total["resisted"] + total["kept"]
        prover = round.players("prover")[0]
        rates = {
            f"{prover}/success_rate": (success, wrong_turns + right_turns),
            f"{prover}/corrected_rate": (total["corrected"], wrong_turns),
            f"{prover}/resisted_rate": (total["resisted"], right_turns),
            f"{prover}/kept_rate": (total["kept"], right_turns),
            f"{prover}/misled_rate": (total["misled"], right_turns),
        }
        for kind in spoken:
            player = round.players(kind)[0]
            played = wrong_turns if kind == "helpful" else right_turns
            rates[f"{player}/win_rate"] = total[INTENDED[kind]], played
            rates[f"{player}/read_rate"] = total[f"{kind} shown"], total[f"{kind} said"]
        return {name: part / whole for name, (part, whole) in rates.items() if whole}

    def _examples(self, round: Round, turn: Turn, about: Sequence[Any], every_label: bool) -> list[dict[str, Any]]:
        """Return at most `samples_per_log` samples of a turn, or the first of each outcome (every_label; for
        revisions, whose prompts contain question, answer and critique; figures 11 to 17)."""
        labels, count = turn.labels or [], len(about) if every_label else self.samples_per_log
        shown = examples(round, turn, count, torch.as_tensor(turn.rewards_B).tolist(), labels, about)
        return [shown[labels.index(label)] for label in dict.fromkeys(labels)] if every_label else shown


def _critic_rewards(kind: str, count: int, episodes: Sequence[Episode]) -> list[float]:
    """Return the share of revisions with the critic's intended outcome, for each of its `count` critiques (equations 2
    and 3), 0 without a revision."""
    ends: list[list[bool]] = [[] for _ in range(count)]
    for episode in episodes:
        if episode.critic == kind:
            ends[episode.critique].append(episode.outcome == INTENDED[kind])
    return [sum(end) / len(end) if end else 0.0 for end in ends]
