"""What the paper's tables say of a prover in one call: greedy pass@1, majority@k, error detection (Wang et al.)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from countdown_selfplay.domains import verdicts_of
from countdown_selfplay.lab.critics import Policy, model_policy
from countdown_selfplay.lab.critics.error_detection import StepItem, error_detection
from countdown_selfplay.lab.critics.win_rates import Iteration
from countdown_selfplay.random_state import seed_from
from countdown_selfplay.statistics.bootstrap import share_interval
from countdown_selfplay.statistics.pass_at_k import majority_at_k


def prover_figures(
    policy: Policy,
    domain: Any,
    problems: Sequence[Any],
    items: Sequence[StepItem],
    votes: Sequence[int] = (8, 32),
    seed: int = 0,
) -> dict[str, Any]:
    """Plain JSON values with 95% intervals over problems: pass@1 (greedy), majority@k for each k of `votes` (of
    max(votes) sampled answers, all ways to draw k of them and to break a tie counted), and error_detection on
    `items`, None without any. per_problem: what these rates are means of, in the order of `problems`. Appendix C.1
    samples at temperature .95 and top-k 10, which is the policy's matter."""
    most = max(votes)
    rows = [domain.prove_row(problem) for problem in problems]
    greedy = [reply.text for (reply,) in policy(rows, 1, 0, True)]
    drawn = policy(rows, most, seed_from("votes", seed), False)
    verdicts = verdicts_of(domain, [[r.text for r in own] for own in drawn], problems)
    said, correct = [[v.vote for v in own] for own in verdicts], [[v.correct for v in own] for own in verdicts]
    rates = {"pass@1": [float(verdict.correct) for verdict in domain.verify(greedy, problems)]}
    rates |= {f"majority@{k}": list(majority_at_k(said, correct, k)) for k in votes}
    return {
        **{name: share_interval(values, seed=seed).to_dict() for name, values in rates.items()},
        "per_problem": rates,
        "error_detection": error_detection(policy, domain, items, seed) if items else None,
    }


CRITICS, CRITIQUES = ("helpful", "misleading"), 16


def critic_choices(
    iterations: Sequence[Iteration],
    domain: Any,
    load: Callable[[str], tuple[Any, Any]],
    problems: Sequence[Any],
    seed: int,
    sampling: Mapping[str, Any],
) -> dict[str, Any]:
    """How far the critics of two iterations differ: the initial prover answers each problem once, every critic
    criticises each answer twice `CRITIQUES` times, and two critics are as far apart as the total variation between
    what they name (a step, or nothing readable), mean over answers. role -> "1/2" -> {"distance", "same"}: same is the
    distance between the two halves of one critic's own critiques, mean of both, which is what sampling alone makes.
    "readable": share of critiques that name a step; "steps": steps of an answer."""
    asked = [domain.prove_row(problem) for problem in problems]
    given = model_policy(*load(iterations[0].models["prover"]), domain, **sampling)(asked, 1, seed, False)
    answers = [(p, reply.text) for p, (reply,) in zip(problems, given, strict=True)]
    answers = [(p, text) for p, text in answers if domain.critique.steps(p, text)]
    rows = [domain.critique.critique_row(p, text) for p, text in answers]
    found: dict[str, Any] = {"steps": float(np.mean([len(domain.critique.steps(*one)) for one in answers]))}
    for role in CRITICS:
        halves: dict[str, list[list[Counter[str | None]]]] = {}
        for one in iterations:
            policy = model_policy(*load(one.models[role]), domain, role, **sampling)
            said = policy(rows, 2 * CRITIQUES, seed_from("critics", seed), False)
            named = [[domain.critique.read_critique(r.text, a) for r in own]
                     for own, (_, a) in zip(said, answers, strict=True)]  # fmt: skip
            halves[one.name] = [[Counter(own[:CRITIQUES]), Counter(own[CRITIQUES:])] for own in named]
        readable = {name: 1 - float(np.mean([sum(h[None] for h in two) for two in own])) / (2 * CRITIQUES)
                    for name, own in halves.items()}  # fmt: skip
        found[role] = {"readable": readable}
        for a, b in combinations(halves, 2):
            apart = [_variation(x[0], y[1]) for x, y in zip(halves[a], halves[b], strict=True)]
            same = [_variation(*two) for name in (a, b) for two in halves[name]]
            found[role][f"{a}/{b}"] = {"distance": float(np.mean(apart)), "same": float(np.mean(same))}
    return found


def _variation(a: Counter[str | None], b: Counter[str | None]) -> float:
    """Total variation between two samples of `CRITIQUES`."""
    return sum(abs(a[name] - b[name]) for name in {*a, *b}) / (2 * CRITIQUES)
