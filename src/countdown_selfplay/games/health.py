"""Health metrics of a round (docs/metrics.md; a metric without a value is left out), and filters of training data by
solve rate (Multimodal LLM Self-Play, algorithm 1, steps 4 to 6)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from ..contract.episodes import Episodes
from ..contract.game import Outcome, Proposal, solve_rates
from ..contract.round import Rollout, Round, Turn


def proposal_health(
    round: Round, proposals: Sequence[Proposal], reasons: Sequence[str], played: Sequence[bool], reward_N: np.ndarray
) -> dict[str, Any]:
    """Return metrics of the proposals of all processes as `<player>/<metric>`, or as `proposer/<metric>` if no player
    proposed. Proposals without a player are not counted in a round with proposals of players."""
    metrics: dict[str, Any] = {}
    rows = list(zip(proposals, reasons, played, reward_N, strict=True))
    for by in dict.fromkeys(p.by for p in proposals if p.by is not None) or [None]:
        own = zip(*(row for row in rows if row[0].by == by), strict=True)
        metrics |= _proposal_health(round, by or "proposer", *own)
    return metrics


def _proposal_health(
    round: Round,
    name: str,
    proposals: Sequence[Proposal],
    reasons: Sequence[str],
    played: Sequence[bool],
    rewards: Sequence[float],
) -> dict[str, Any]:
    total, domain = len(proposals), round.domain
    keys = [domain.key(p.problem) for p in proposals if p.problem is not None]
    known = np.array([reward for reward in rewards if not np.isnan(reward)])
    # Without the domain's check there are no facts; of an unreadable text none is true.
    facts = [fact for fact in domain.facts if all(fact in p.facts for p in proposals if p.problem is not None)]
    metrics: dict[str, Any] = {
        "parseable_rate": len(keys) / total,
        **{f"{fact}_rate": sum(p.facts.get(fact, False) for p in proposals) / total for fact in facts},
        "admitted_rate": sum(reason == "ok" for reason in reasons) / total,
        "played_rate": sum(played) / total,
        "contamination_rate": sum(key in round.held_out for key in keys) / total,
    }
    asks = {"_".join(f"{key}_{value}" for key, value in ask.items()): ask for ask in domain.asks}
    for request, ask in sorted(asks.items()):  # such as operands_3
        rates = [got for got, p in zip(played, proposals, strict=True) if _holds(p.request, ask)]
        if rates and len(asks) > 1:
            metrics[f"played_rate_{request}"] = sum(rates) / len(rates)
    if keys:
        metrics["unique_rate"] = len(set(keys)) / len(keys)
    if known.size:
        metrics |= {"reward": float(known.mean()), "reward_std": float(known.std())}
    return {f"{name}/{metric}": value for metric, value in metrics.items()}


def _holds(given: Any, ask: Mapping[str, Any]) -> bool:
    """Return whether the request `given` has all entries of `ask`, and perhaps others such as `or_more`. Values other
    than mappings, such as a bandit's arm, are not requests."""
    return isinstance(given, Mapping) and all(name in given and given[name] == value for name, value in ask.items())


_MOST_BINS = 33  # bins of the histogram of solve rates
_HARD_BELOW = 0.05  # lower edge of Allen and Ståblein's band


def solve_rate_health(solve_rate_P: np.ndarray, kept: int, easy_above: float, attempts: int) -> dict[str, Any]:
    """Return solve-rate metrics of the proposals (the first `kept` slots) and of the anchor problems. With up to 32
    `attempts` the histogram has a bin for each count of right answers, else 11 bins, for 0, 0.1, ..., 1."""
    conjectured, anchors = solve_rate_P[:kept], solve_rate_P[kept:]
    metrics: dict[str, Any] = {"round/anchor_slots": int(anchors.size)}
    if conjectured.size:
        last = attempts if attempts < _MOST_BINS else 10
        bins = np.rint(conjectured * last).astype(int)
        metrics |= {
            "round/solve_rate_mean": float(conjectured.mean()),
            "round/solve_rate_std": float(conjectured.std()),
            "round/too_easy_share": float((conjectured >= easy_above).mean()),
            "round/too_hard_share": float((conjectured < _HARD_BELOW).mean()),
            "round/solve_rate_histogram": np.bincount(bins, minlength=last + 1).tolist(),
        }
    if anchors.size:
        metrics["round/anchor_solve_rate_mean"] = float(anchors.mean())
    return metrics


def prover_health(
    round: Round, answers: Rollout, advantages_B: torch.Tensor, of_data: Sequence[bool] | None = None
) -> dict[str, Any]:
    """Return metrics of a prover's answers on all processes. of_data: mask of this process's problems to count in
    `sampled_entropy`, those of the data set; None: all."""
    verdicts = answers.verdicts or []
    votes = [v.vote for v in verdicts if hasattr(v, "vote")]
    zero_groups = (advantages_B.reshape(-1, answers.n) == 0).all(1)
    known = answers.rewards_B[~torch.isnan(answers.rewards_B)].double()
    own = (
        len(verdicts),
        sum(v.correct for v in verdicts),
        sum(vote is not None for vote in votes),
        len(votes),
        sum(getattr(v, "n_answers", 1) > 1 for v in verdicts),
        len(zero_groups),
        int(zero_groups.sum()),
        known.numel(),
        float(known.sum()),
        float((known**2).sum()),
        sum(hasattr(v, "unchecked") for v in verdicts),
        sum(getattr(v, "unchecked", False) for v in verdicts),
        *_surprisal(answers, of_data),
    )
    sums = np.asarray(round.gather([own])).sum(0)
    total, correct, read, voting, several, *others = map(float, sums)
    groups, zero, n, reward, square, tried, unchecked, surprisal, tokens = others
    if not total:  # a round without a problem (fill=none)
        return {}
    metrics = {"correct_rate": correct / total, "several_answers_rate": several / total}
    metrics["zero_signal_groups"] = zero / groups
    if voting:
        metrics["format_rate"] = read / voting
    if n:
        metrics |= {"reward": reward / n, "reward_std": max(square / n - (reward / n) ** 2, 0.0) ** 0.5}
    if tried:  # for a verifier that can fail
        metrics["unchecked_rate"] = unchecked / tried
    if tokens:
        metrics["sampled_entropy"] = surprisal / tokens
    return {f"{answers.role}/{name}": value for name, value in metrics.items()}


def _surprisal(answers: Rollout, of_data: Sequence[bool] | None) -> tuple[float, int]:
    """Return the negative sum of the sampling policy's log-probs over the sampled tokens, and their number; (0, 0)
    without log-probs. of_data: mask of the problems to count, None for all."""
    tensors = answers.tensors
    logps = tensors.get("sampling_per_token_logps", tensors.get("old_per_token_logps"))
    if logps is None:
        return 0.0, 0
    counted = tensors["completion_mask"].bool() & ~torch.isnan(logps)
    if of_data is not None:
        wanted_B = torch.tensor(of_data, dtype=torch.bool).repeat_interleave(answers.n)
        counted &= wanted_B[:, None].to(counted.device)
    return -float(logps[counted].cpu().double().sum()), int(counted.sum())


def examples(
    round: Round,
    turn: Turn,
    count: int,
    rewards_B: Sequence[float],
    reasons: Sequence[Any],
    problems: Sequence[Any],
    more: Sequence[dict[str, Any]] = (),
) -> list[dict[str, Any]]:
    """Return at most `count` samples of this process, spread over its groups, for samples.jsonl, with `rung` if the
    domain has several. For an episode, `completion` has its moves, one per line, `prompt` is the prompt of the first
    move, and `moves` has each move with the state before it. more: further columns, per sample."""
    rollout = turn.rollout
    count, rungs = min(count, len(rollout.texts)), has_rungs(round.domain)
    episodes = rollout.steps if isinstance(rollout, Episodes) else []
    step = max(len(rollout.texts) // count, 1) if count else 1
    return [
        {
            "role": rollout.role,
            "prompt": rollout.rows[i // rollout.n]["prompt"],
            "completion": rollout.texts[i],
            "reward": _written(rewards_B[i]),
            "advantage": _written(float(turn.advantages_B[i])),
            "problem": None if problems[i] is None else round.domain.key(problems[i]),
            "reason": str(reasons[i]),
            **({"rung": round.domain.rung(problems[i])} if rungs and problems[i] is not None else {}),
            **({"moves": episodes[i]} if episodes else {}),
            **(more[i] if more else {}),
        }
        for i in range(0, count * step, step)
    ]


def _written(value: float) -> float | None:
    """Round a number to 6 decimals for samples.jsonl; return None for NaN (not measured)."""
    return None if np.isnan(value) else float(f"{value:.6f}")


def has_rungs(domain: Any) -> bool:
    """Return whether the domain has several rungs."""
    return domain.rung is not None and len(domain.rungs) != 1


def axes_health(
    domain: Any, proposals: Sequence[Proposal], problems: Sequence[Any], solve_rate_P: np.ndarray
) -> dict[str, Any]:
    """Return counts and mean solve rates for each value of each axis of `domain.axes`: for rungs, all values of a
    domain with several rungs; for other axes, the values that occur in the round."""
    of_P = [domain.axes(problem) for problem in problems]
    of_N = [domain.axes(p.problem) for p in proposals if p.problem is not None]
    metrics: dict[str, Any] = {}
    for axis in dict.fromkeys(name for axes in (*of_P, *of_N) for name in axes):
        if axis == "rung" and not has_rungs(domain):
            continue
        proposed, played = (Counter(axes.get(axis) for axes in of) for of in (of_N, of_P))
        known = domain.rungs if axis == "rung" else ()
        for value in sorted({*(known or proposed), *played} - {None}):
            rates = [rate for rate, axes in zip(solve_rate_P, of_P, strict=True) if axes.get(axis) == value]
            name = f"round/{axis}_{value}"
            metrics |= {f"{name}_proposed": proposed[value], f"{name}_played": len(rates)}
            if rates:
                metrics[f"{name}_solve_rate"] = float(np.mean(rates))
    return metrics


Frontier = tuple[float, float]


def frontier_of(low: float | None, high: float | None) -> Frontier | None:
    """Return the bounds of the frontier, 0 or 1 for the one that is None; None if both are."""
    return None if low is None and high is None else (0.0 if low is None else low, 1.0 if high is None else high)


def in_frontier(frontier: Frontier, problem_of: Sequence[int | None], solve_rate_P: np.ndarray) -> np.ndarray:
    """Return a mask, (N), of the played proposals whose solve rate is in the frontier."""
    low, high = frontier
    return np.array([i is not None and low <= solve_rate_P[i] <= high for i in problem_of], dtype=bool)


def frontier_share(proposals: Sequence[Proposal], played: Sequence[bool], inside_N: np.ndarray) -> dict[str, float]:
    """Return the share in the frontier of the played proposals that players wrote; {} if there are none."""
    written = [bool(inside) for p, got, inside in zip(proposals, played, inside_N, strict=True) if got and p.by]
    return {"round/frontier_share": sum(written) / len(written)} if written else {}


def wanted_answers(
    trains_on: str, frontier: Frontier | None, solve_rate_P: np.ndarray, correct_MPG: np.ndarray
) -> list[bool] | None:
    """Return a mask, (P), of the problems on whose answers provers may train; None: all. trains_on "nontrivial":
    some but not all answers of the provers are right; "frontier": the solve rate is in the frontier."""
    if trains_on == "nontrivial":
        rate_P = solve_rates(correct_MPG)
        return ((rate_P > 0) & (rate_P < 1)).tolist()
    if trains_on == "frontier" and frontier is not None:
        return ((solve_rate_P >= frontier[0]) & (solve_rate_P <= frontier[1])).tolist()
    return None


def is_starved(proposals: Sequence[Proposal], played: Sequence[bool]) -> bool:
    """Return whether none of the problems written by players was played; if no player wrote one, whether no proposal
    was played at all."""
    return not _played_of(proposals, played)


def unsolvable_share(domain: Any, proposals: Sequence[Proposal], played: Sequence[bool]) -> dict[str, float]:
    """Return the share of the played proposals that are unsolvable; {} if the domain refuses these or none is played.
    Problems that a rule adds to those of players, all of them solvable, are not counted."""
    facts = [p.facts for p in _played_of(proposals, played)]
    if not facts or not domain.admit_unsolvable:
        return {}
    unsolvable = [f.get("solvable") is False and not f.get("repaired") for f in facts]
    return {"round/unsolvable_share": sum(unsolvable) / len(unsolvable)}


def _played_of(proposals: Sequence[Proposal], played: Sequence[bool]) -> list[Proposal]:
    """Return the played proposals of players; if no player wrote one, all that were played."""
    wrote = any(p.by is not None for p in proposals)
    return [p for p, got in zip(proposals, played, strict=True) if got and (p.by is not None or not wrote)]


def shuffled(outcome: Outcome, seed: int) -> Outcome:
    """Return the outcome with shuffled rewards, for a control run whose conjecturer cannot learn from them: permuted
    among the proposals that have one, `invalid_reward` included; NaN (no reward) stays in place. `trainable_N` is
    permuted likewise, because it depends on the solve rate."""
    known = np.flatnonzero(~np.isnan(outcome.rewards_N))
    drawn = known[np.random.default_rng(seed).permutation(len(known))]
    rewards_N = np.array(outcome.rewards_N, dtype=float)
    rewards_N[known] = rewards_N[drawn]
    trainable_N = outcome.trainable_N
    if trainable_N is not None:
        trainable_N = trainable_N.copy()
        trainable_N[known] = trainable_N[drawn]
    return replace(outcome, rewards_N=rewards_N, trainable_N=trainable_N)
