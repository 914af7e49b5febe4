"""The joint round of seed 001, section 3.2: the conjecturer proposes, the prover solves, both are credited."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ..countdown import Problem
from ..curriculum.admission import admit, dealt, examine, kept_proposals
from ..random_state import seed_from
from ..rewards import RewardContext, checked_rewards, refused_reward
from ..training.credit import credit
from .base import Rollout, RoundContext, RoundResult
from .health import conjecturer_health, prover_health, solve_rate_health
from .metrics import METRICS


class ProposeAndSolve:
    """Nine phases in the paper's order: sample C, parse, filter, build the prover's batch, sample P, score, reward
    C, credit both. Without a conjecturer (no proposals in the settings) it is plain RL on the anchor problems."""

    metrics = METRICS

    def play(self, ctx: RoundContext, anchors: list[Problem]) -> RoundResult:
        rules = ctx.settings
        metrics: dict[str, object] = {}

        # Propose: every group of the round asks for one operand count; the counts take turns.
        proposals = None
        texts: list[str] = []
        requests: list[dict[str, Any]] = []
        if rules.proposals:
            groups = rules.proposals // rules.conjecturer_group
            first = ctx.state.rounds * groups
            counts = [rules.operands[(first + g) % len(rules.operands)] for g in range(groups)]
            requests = _repeated([ctx.domain.propose_row(k) for k in ctx.share(counts)], rules.conjecturer_group)
            proposals = ctx.rollout("conjecturer", requests)
            texts = proposals.texts

        # Parse and admit: the processes examine their own proposals and decide together on all of them.
        candidates = ctx.gather(examine(ctx.domain, texts, [row["operands"] for row in requests]))
        admission = admit(
            ctx.domain, candidates, ctx.state, ctx.excluded, rules.novelty_window, rules.duplicate_proposals
        )

        admission = dealt(admission, candidates, rules.operands, ctx.state.rounds)

        # Fill: fixed slots, anchors pad whatever the conjecturer left open; never truncate (unless asked to).
        kept = kept_proposals(
            len(admission.problems), rules.slots, rules.anchor_slots, rules.fill, rules.truncate_multiple
        )
        # Anchors that the prover has mastered come last (a stable order; False is less than True).
        limit = _solved_limit(ctx)
        mastered = frozenset() if limit is None else ctx.state.mastered(limit)
        anchors = sorted(anchors, key=lambda problem: ctx.domain.key(problem) in mastered) if mastered else anchors
        randoms = _random_problems(ctx) if rules.random_slots else []
        metrics |= {"round/random_slots": len(randoms)} if randoms else {}
        problems = admission.problems[:kept] + randoms + anchors[: rules.slots - kept - len(randoms)]

        # Solve: one group of answers per slot; the solve rate comes from the verifier's bit, never from a reward.
        own = ctx.share(problems)
        mine = _repeated(own, rules.prover_group)
        rows = _repeated([ctx.domain.prove_row(problem) for problem in own], rules.prover_group)
        answers = ctx.rollout("prover", rows)
        verdicts = [ctx.domain.verify(text, problem) for text, problem in zip(answers.texts, mine, strict=True)]
        correct_PG = np.asarray(ctx.gather([v.correct for v in verdicts]), dtype=float).reshape(-1, rules.prover_group)
        solve_rate_P = correct_PG.mean(1)

        # Reward: a played proposal earns by its solve rate, a refused one what the reward says of its reason, or else
        # the invalid reward; one that was admitted but found no slot was not measured: it has no reward and takes no
        # part in a baseline.
        reward_N = np.full(len(candidates), np.nan)
        if proposals is not None:
            known = RewardContext(
                attempts=rules.prover_group,
                round=ctx.state.rounds,
                problems=tuple(problems[:kept]),
                archive=tuple(ctx.state.played),
                recent_rates=tuple(ctx.state.recent_rates),
                spec=ctx.domain.spec,
                rules=ctx.domain.rules,
            )
            reward_of_problem = checked_rewards(ctx.conjecturer_reward, solve_rate_P[:kept], known)
            for n, index in enumerate(admission.problem_of):
                if index is None:
                    reward_N[n] = refused_reward(ctx.conjecturer_reward, admission.reasons[n], rules.invalid_reward)
                elif index < kept:
                    reward_N[n] = reward_of_problem[index]
            metrics |= conjecturer_health(ctx, candidates, admission, reward_N, kept)

        # Credit: advantages per role, over whole groups of this process.
        bits_B = torch.tensor([v.correct for v in verdicts])
        mastered_B = torch.tensor([ctx.domain.key(p) in mastered for p in mine]) if mastered else None
        batches = {"prover": credit(ctx, answers, answers.rewards_B, bits_B, mastered_B)}
        if proposals is not None:
            local = torch.tensor(ctx.share(reward_N.tolist()), dtype=torch.float32)
            batches["conjecturer"] = credit(ctx, proposals, local)

        metrics |= solve_rate_health(solve_rate_P, kept, rules)
        metrics |= prover_health(ctx, answers, verdicts, batches["prover"].advantages_B)
        counts_P = correct_PG.sum(1).astype(int).tolist()
        solved = [(ctx.domain.key(p), count) for p, count in zip(problems, counts_P, strict=True)]
        if limit is not None:
            ctx.state.record_solved(solved, limit)
            metrics["round/mastered_problems"] = len(ctx.state.mastered(limit))
        starved = bool(rules.proposals) and kept == 0
        if rules.proposals:
            metrics["round/starved"] = int(starved)
        if rules.proposals:
            ctx.state.record_played([ctx.domain.key(p) for p in problems[:kept]], solve_rate_P[:kept].tolist())
        ctx.state.record_round([ctx.domain.key(p) for p in problems[:kept]], rules.novelty_window, starved)

        samples = _examples(ctx, "prover", answers, [v.reason for v in verdicts], mine)
        if proposals is not None:
            reasons = ctx.share(admission.reasons)
            own_problems = [c.problem for c in ctx.share(candidates)]
            proposals.rewards_B = torch.tensor(ctx.share(reward_N.tolist()))
            samples += _examples(ctx, "conjecturer", proposals, reasons, own_problems)
        return RoundResult(batches, metrics, samples, solved)


def _repeated(items: list[Any], times: int) -> list[Any]:
    """Each item `times` times in a row: the same object, since nobody writes into a problem or a row."""
    return [item for item in items for _ in range(times)]


def _random_problems(ctx: RoundContext) -> list[Problem]:
    """New problems of the round, uniform over the domain's solvable ones; the same on every process."""
    seed = seed_from(ctx.seed, "random problems", ctx.state.attempt, ctx.state.rounds)
    return ctx.domain.random_problems(ctx.settings.random_slots, seed, ctx.excluded)


def _solved_limit(ctx: RoundContext) -> int | None:
    """Correct answers after which the prover's objective is done with a problem (expert iteration)."""
    replay = getattr(ctx.objectives["prover"], "replay", None)
    return None if replay is None else replay.solved_limit


def _examples(
    ctx: RoundContext, role: str, rollout: Rollout, reasons: Sequence[str], problems: Sequence[Problem | None]
) -> list[dict[str, object]]:
    """The first few samples of this process, spread over its groups, for samples.jsonl."""
    count = min(ctx.settings.samples, len(rollout.texts))
    step = max(len(rollout.texts) // count, 1) if count else 1
    return [
        {
            "role": role,
            "prompt": rollout.rows[i]["prompt"],
            "completion": rollout.texts[i],
            "reward": None if torch.isnan(rollout.rewards_B[i]) else round(float(rollout.rewards_B[i]), 6),
            "problem": None if (problem := problems[i]) is None else problem.key,
            "reason": str(reasons[i]),
        }
        for i in range(0, count * step, step)
    ]
