"""Demonstrations of the exact offline generator."""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import replace
from functools import lru_cache
from typing import Any

from ..contract.domain import Domain
from ..countdown import CountdownDomain, Problem, Rules, generate_problems
from ..countdown.exact.solver import all_solutions
from ..countdown.exact.written import written_forms
from ..countdown.rows import ROW_SCHEMAS, UNSOLVED_SCHEMAS, move_rows
from ..domains import name_of
from ..errors import ConfigError

SCHEMA = {"prover": "solved", "conjecturer": "proposed", "guide": "reviewed"}
"""Role -> the schema of `countdown-selfplay dataset` that holds its demonstrations; a conjecturer's may be "helping"
or "variant" too."""

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
    """Demonstrations for `role` on `n` distinct problems of the training side, none of them in `exclude` (keys), each
    problem `per_problem` times with its numbers in another order. schema: None for the role's.

    Problems that help with a target (`helping`, `variant`, `reviewed`) are made for targets with more numbers than
    the fewest of the domain, where it has several counts: a step towards one has fewer.

    With the compact prompt each shows another solution too, all ways to write one being equally likely up to three
    numbers, all inequivalent ones beyond. Shown only the solver's first solution, the tiny model learns which one that
    is and forgets the others (docs/warm_starts.md has figures). With the other prompts it is the solver's search.
    In moves the prover's are planted episodes, n x per_problem of them, a row a move. ConfigError for another domain.
    """
    if not isinstance(domain, CountdownDomain):
        raise ConfigError(
            f"`dataset_name` is not set, and only Countdown's demonstrations can be made; `domain` is "
            f"'{name_of(domain)}', so pass a file with its problems, `prompt` and `completion`."
        )
    schema = schema or SCHEMA[role]
    if domain.answers == "moves":
        return _in_moves(n * per_problem, role, domain, seed, exclude, schema)
    row_of, spec = ROW_SCHEMAS[schema], domain.spec
    if schema in ("helping", "variant", "reviewed"):
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
    """Every solution of a solvable problem that a demonstration may show, tokens between single spaces, sorted."""
    if len(problem.numbers) <= WRITTEN_UP_TO and rules.use_all and not rules.integers_only:
        return sorted({form.text for form in written_forms(problem.numbers) if form.value == problem.target})
    return [text.replace("(", "( ").replace(")", " )") for text in all_solutions(problem, rules)]
