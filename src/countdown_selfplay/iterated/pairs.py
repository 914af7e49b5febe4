"""Pairs of what was played, for DPO: a success over a failure at the same prompt, or a right over a wrong step."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from ..random_state import seed_from
from ..warm_starts.pairs import ScoredSample, make_preference_pairs
from .select import Row, pooled
from .settings import RoleTraining


def preferred(rows: Iterable[Row], role: str, training: RoleTraining, *key: object) -> list[Row]:
    """One pair for each prompt that has both, a success and a failure, drawn by lot from `key` (appendix B: one of
    each per question, solution and critique; a prompt is what holds them). The success's row with the failure's text
    as `rejected`. Samples are those of `pooled`, so that a critique is a success or a failure by all of its copies; a
    text that was both all the same, by another label, is neither."""
    sides: dict[tuple[str, str], set[bool]] = defaultdict(set)
    found: dict[tuple[str, str], Row] = {}
    for row in pooled(rows, role):
        kept, failed = (one(row["reward"], row["label"]) for one in (training.keeps, training.fails))
        if failed or (kept and not training.loops(row["completion"])):
            place = row["prompt"], row["completion"]
            sides[place].add(kept)
            found.setdefault(place, row)
    clear = [place for place in found if len(sides[place]) == 1]
    samples = [ScoredSample(prompt, prompt, text, float(min(sides[prompt, text]))) for prompt, text in clear]
    pairs = make_preference_pairs(samples, pairs_per_group=1, seed=seed_from(*key))
    return [{**found[pair.group, pair.chosen], "before": "", "rejected": pair.rejected} for pair in pairs]


def stepwise(
    rows: Iterable[Row], training: RoleTraining, domain: Any, problems: Mapping[str, Any], *key: object
) -> list[Row]:
    """One pair for each question with a wrong answer whose right steps some right answer has too (Lai et al. 2024):
    after these steps the right answer's next one over the first wrong one. The domain says which that is.

    The right answer's row, with `before` (the steps that both have), `completion` and `rejected` (one step each).
    """
    answers: dict[str, dict[bool, list[Row]]] = defaultdict(lambda: {True: [], False: []})
    for row in rows:
        kept, failed = (one(row["reward"], row["label"]) for one in (training.keeps, training.fails))
        if row["role"] == "prover" and (kept or failed):
            answers[row["prompt"]][kept].append(row)
    found = []
    for prompt, sides in answers.items():
        lot = random.Random(seed_from(*key, prompt))
        pairs = _step_pairs(domain, problems, lot.sample(sides[False], len(sides[False])), sides[True])
        if pairs:
            before, step, wrong, row = lot.choice(pairs)
            found.append({**row, "before": before, "completion": step, "rejected": wrong})
    return found


def _step_pairs(
    domain: Any, problems: Mapping[str, Any], wrong: list[Row], right: list[Row]
) -> list[tuple[str, str, str, Row]]:
    """(steps before, right step, wrong step, the right answer's row) of the first wrong answer that gives any."""
    for row in wrong:
        cut = domain.cut_at_mistake(problems[row["problem"]], row["completion"])
        if cut is not None:
            before, step = cut
            next_steps = [(domain.next_step(other["completion"], before), other) for other in right]
            pairs = [(before, good, step, other) for good, other in next_steps if good not in (None, step)]
            if pairs:
                return pairs
    return []
