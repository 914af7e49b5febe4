"""Demonstrations of the Critic-Discernment Game on Countdown, exact by the solver: an imitation stage for models that
do not know the game (Wang et al. 2025, section 4.1, imitate a larger model's play)."""

from __future__ import annotations

import random
from collections.abc import Collection
from typing import Any

from ..countdown import CountdownDomain, Problem, generate_problems
from ..countdown.critique import REJECT, first_mistake, steps_of
from ..countdown.exact.written import written_forms
from ..errors import ConfigError
from .demonstrations import WRITTEN_UP_TO, compact_texts

RIGHT = 0.4
"""Share of the answers that are criticised or checked that are right. With a half the model rejects more critiques of
its own wrong answers than it heeds."""
NEAR, NEAR_SHARE = 5, 0.75
"""Of the wrong answers, so many are drawn from those whose value lies so near to the target, where there are any: a
model's own mistakes do, and it takes them for right if it has met random ones alone."""


def critique_demonstrations(
    n: int,
    domain: CountdownDomain,
    seed: int = 0,
    exclude: Collection[str] = (),
    rightly: float = 0.5,
    per_problem: int = 1,
    critiques: int = 1,
) -> list[dict[str, Any]]:
    """Rows, `per_problem` times, for each of `n` distinct problems of the training side, none in `exclude`: an answer,
    `critiques` critiques of an answer each, a revision and an answer checked again without a critique; as `sft
    --keep_wrong true` reads them.

    The answer that is criticised or checked is right in `RIGHT` of the rows, else another expression over the same
    numbers. The critique names its first mistake; of a right answer, which has none, any step. The revision of a right
    answer rejects the critique and that of a wrong one gives a solution: in the share `rightly` of the rows after the
    first mistake, else after any step. Checked again, a right answer is given once more and a wrong one corrected, the
    two kinds of the paper's appendix C.3. ConfigError for another prompt than the compact one, or more than three
    numbers.
    """
    if domain.prover_prompt != "compact" or max(domain.spec.operands) > WRITTEN_UP_TO:
        raise ConfigError(
            f"Demonstrations of critiques are made for the compact prompt and at most {WRITTEN_UP_TO} numbers; "
            f"`prover_prompt` is '{domain.prover_prompt}' and `operands` are {list(domain.spec.operands)}."
        )
    problems = generate_problems(n, domain.spec, seed=seed, exclude=exclude, split="train", rules=domain.rules)
    rows = []
    for problem in problems:
        draw = random.Random(f"critiques|{seed}|{problem.key}")
        solutions = compact_texts(problem, domain.rules)
        off = {form.text: abs(form.value - problem.target) for form in written_forms(problem.numbers)}
        wrong = [text for text, distance in off.items() if distance]
        near = [text for text in wrong if off[text] <= NEAR] or wrong
        for _ in range(per_problem):
            rows += _rows(problem, domain, draw, solutions, (near, wrong), rightly, critiques)
    return rows


def _rows(
    problem: Problem,
    domain: CountdownDomain,
    draw: random.Random,
    solutions: list[str],
    mistakes: tuple[list[str], list[str]],
    rightly: float,
    critiques: int,
) -> list[dict[str, Any]]:
    """An answer, critiques, a revision and a check. mistakes: wrong answers near the target, and all of them."""
    near, wrong = mistakes
    shuffled = Problem(tuple(draw.sample(problem.numbers, len(problem.numbers))), problem.target)
    rows = [domain.prove_row(shuffled) | {"completion": draw.choice(solutions)}]
    for asked in (*["critique"] * critiques, "revision", "check"):
        right = draw.random() < RIGHT
        answer = draw.choice(solutions if right else near if draw.random() < NEAR_SHARE else wrong)
        if asked == "check":
            after = answer if right else draw.choice(solutions)
            rows.append(domain.critique.recheck_row(shuffled, answer) | {"completion": after})
            continue
        mistake = first_mistake(shuffled, answer, domain.rules)
        if mistake is None or (asked == "revision" and draw.random() >= rightly):
            mistake = draw.choice(steps_of(answer))
        if asked == "critique":
            rows.append(domain.critique.critique_row(shuffled, answer) | {"completion": mistake.text})
        else:
            after = REJECT if right else draw.choice(solutions)
            rows.append(domain.critique.revise_row(shuffled, answer, mistake.text) | {"completion": after})
    return rows
