"""Demonstrations of the exact offline generator: for every role, and of the Critic-Discernment Game for models that do
not know it (Wang et al. 2025, section 4.1, imitate a larger model's play)."""

import random
from collections.abc import Collection
from dataclasses import replace
from functools import lru_cache
from typing import Any

from ..contract.domain import Domain
from ..countdown import CountdownDomain, Problem, Rules, generate_problems
from ..countdown.critique import REJECT, first_mistake, steps_of
from ..countdown.exact.listing import all_solutions
from ..countdown.expression import written_forms
from ..domains import name_of
from ..errors import ConfigError
from .rows import ROW_SCHEMAS, UNSOLVED_SCHEMAS, WITH_A_TARGET, move_rows

SCHEMA = {"prover": "solved", "conjecturer": "proposed", "guide": "reviewed"}
"""Role -> the schema of `countdown-selfplay dataset` that holds its demonstrations; a conjecturer's may be "helping"
or "variant" too, and those of `WITH_A_TARGET` may be without distractors ("helping_steps")."""

CRITICISED_UP_TO = 4  # operands
ORDERS = 6  # of four numbers, in which a problem's wrong answers are written; in all 24 they are 7,680
WRITTEN_UP_TO = 3  # operands; beyond it the ways to write a solution are too many to list


def generated_rows(
    n: int,
    role: str,
    domain: Domain[Any],
    seed: int = 0,
    exclude: Collection[str] = (),
    per_problem: int = 1,
    schema: str | None = None,
) -> list[dict[str, Any]]:
    """Return demonstrations for `role` on `n` distinct problems of the training split, none of them in `exclude`
    (keys), each problem `per_problem` times with its numbers in another order. schema: None for the role's. Targets of
    problems that help (`helping`, `variant`, `reviewed`) have more than the domain's smallest count of numbers, if it
    has several, because a step towards a target has fewer. With the compact prompt each copy shows another solution:
    up to three numbers all written forms are equally likely, beyond that all inequivalent ones. The tiny model, shown
    only the solver's first solution, learns which one that is and forgets the others (docs/warm_starts.md has
    figures). With the other prompts the completion is the solver's search. In moves, a prover's are n x per_problem
    planted episodes, one row per move. Raises ConfigError for another domain."""
    if not isinstance(domain, CountdownDomain):
        raise ConfigError(
            f"`dataset_name` is not set, and only Countdown's demonstrations can be made; `domain` is "
            f"'{name_of(domain)}', so pass a file with its problems, `prompt` and `completion`."
        )
    schema = schema or SCHEMA[role]
    if domain.answers == "moves":
        return _in_moves(n * per_problem, role, domain, seed, exclude, schema)
    row_of, spec = ROW_SCHEMAS[schema], domain.spec
    if schema.removesuffix("_steps") in WITH_A_TARGET:
        larger = tuple(k for k in spec.operands if k > min(spec.operands))
        spec = replace(spec, operands=larger or spec.operands)
    problems = generate_problems(n, spec, seed=seed, exclude=exclude, split="train", rules=domain.rules)
    rows = []
    for problem in problems:
        generator = random.Random(f"demonstrations|{seed}|{problem.key}")
        for _ in range(per_problem):
            shuffled = Problem(tuple(generator.sample(problem.numbers, len(problem.numbers))), problem.target)
            row = row_of(shuffled, domain)
            if role == "prover" and domain.prover_prompt == "compact":
                row["completion"] = generator.choice(compact_texts(problem, domain.rules))
            rows.append(row)
    return rows


def _in_moves(
    n: int, role: str, domain: CountdownDomain, seed: int, exclude: Collection[str], schema: str
) -> list[dict[str, Any]]:
    if role == "prover":
        return [row for _, row in move_rows(n, domain, seed, exclude)]
    if schema not in UNSOLVED_SCHEMAS:
        raise ConfigError(
            f"`answers` (moves) has no demonstrations '{schema}', which need the exact solver; make them with answers "
            "whole, or pass a file as dataset_name."
        )
    return [ROW_SCHEMAS[schema](problem, domain) for problem in domain.random(n, seed, exclude)]


@lru_cache(maxsize=1)  # the rows of one problem follow each other
def compact_texts(problem: Problem, rules: Rules) -> list[str]:
    """Return all solutions of a solvable problem that demonstrations may show, sorted, tokens between single
    spaces."""
    if len(problem.numbers) <= WRITTEN_UP_TO and rules.use_all and not rules.integers_only:
        return sorted({form.text for form in written_forms(problem.numbers) if form.value == problem.target})
    return [text.replace("(", "( ").replace(")", " )") for text in all_solutions(problem, rules)]


RIGHT = 0.4
"""Share of right answers among those that are criticised or checked. With 0.5 the model rejects more critiques of its
wrong answers than it follows."""
NEAR, NEAR_SHARE = 5, 0.75
"""Largest distance from the target of near answers, and share of the wrong answers that are near, if there are any: a
model's mistakes are near the target, and it takes them for right if it was trained on random mistakes alone."""


def critique_demonstrations(
    n: int,
    domain: CountdownDomain,
    seed: int = 0,
    exclude: Collection[str] = (),
    per_problem: int = 1,
    critiques: int = 1,
) -> list[dict[str, Any]]:
    """Return rows, `per_problem` times, for each of `n` distinct problems of the training split, none in `exclude`: an
    answer, `critiques` critiques of an answer each, a revision, and an answer checked without a critique; `sft
    --keep_wrong true` reads them. An answer that is criticised or checked is right in the share `RIGHT` of the rows,
    else another expression over the same numbers. A critique names the first mistake; of a right answer, which has
    none, any step. The revision of a right answer rejects the critique, and that of a wrong one gives a solution: in
    half of the rows after the first mistake, else after any step. A check repeats a right answer and corrects a wrong
    one, the two kinds of appendix C.3. Raises ConfigError for another prompt than compact, or above four numbers."""
    if domain.prover_prompt != "compact" or max(domain.spec.operands) > CRITICISED_UP_TO:
        raise ConfigError(
            f"Demonstrations of critiques are made for the compact prompt and at most {CRITICISED_UP_TO} numbers; "
            f"`prover_prompt` is '{domain.prover_prompt}' and `operands` are {list(domain.spec.operands)}."
        )
    problems = generate_problems(n, domain.spec, seed=seed, exclude=exclude, split="train", rules=domain.rules)
    rows = []
    for problem in problems:
        draw = random.Random(f"critiques|{seed}|{problem.key}")
        solutions = compact_texts(problem, domain.rules)
        large = len(problem.numbers) > WRITTEN_UP_TO
        orders = [tuple(draw.sample(problem.numbers, len(problem.numbers))) for _ in range(ORDERS)] if large else None
        off = {form.text: abs(form.value - problem.target) for form in written_forms(problem.numbers, orders)}
        wrong = [text for text, distance in off.items() if distance]
        near = [text for text in wrong if off[text] <= NEAR] or wrong
        for _ in range(per_problem):
            rows += _rows(problem, domain, draw, solutions, (near, wrong), critiques)
    return rows


def _rows(
    problem: Problem,
    domain: CountdownDomain,
    draw: random.Random,
    solutions: list[str],
    mistakes: tuple[list[str], list[str]],
    critiques: int,
) -> list[dict[str, Any]]:
    """Return an answer, critiques, a revision and a check. mistakes: the near wrong answers, and all of them."""
    near, wrong = mistakes
    shuffled = Problem(tuple(draw.sample(problem.numbers, len(problem.numbers))), problem.target)
    rows = [domain.prove_row(shuffled) | {"completion": draw.choice(solutions)}]
    for kind in (*["critique"] * critiques, "revision", "check"):
        right = draw.random() < RIGHT
        answer = draw.choice(solutions if right else near if draw.random() < NEAR_SHARE else wrong)
        if kind == "check":
            after = answer if right else draw.choice(solutions)
            rows.append(domain.critique.recheck_row(shuffled, answer) | {"completion": after})
            continue
        mistake = first_mistake(shuffled, answer, domain.rules)
        if mistake is None or (kind == "revision" and draw.random() >= 0.5):
            mistake = draw.choice(steps_of(answer))
        if kind == "critique":
            rows.append(domain.critique.critique_row(shuffled, answer) | {"completion": mistake.text})
        else:
            after = REJECT if right else draw.choice(solutions)
            rows.append(domain.critique.revise_row(shuffled, answer, mistake.text) | {"completion": after})
    return rows
