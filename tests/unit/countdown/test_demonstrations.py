# Tests: countdown/proposals.py
"""Demonstrations are right in every line, and rows have the public schemas."""

import re
from fractions import Fraction

import pytest

from countdown_selfplay.countdown import (
    CountdownDomain,
    Problem,
    Rules,
    generate_problems,
    parse_proposal,
    problem_from_row,
    verify,
)
from countdown_selfplay.countdown.rows import ROW_SCHEMAS, compact_solution, solution_trace

from .oracle import naive_solvable

PROBLEMS = [*generate_problems(60, seed=11), Problem((3, 3, 8, 8), 24), Problem((7,), 7), Problem((3, 7), -4)]
STEP = re.compile(r"^(\(?-?[\d/]+\)?) ([-+*/]) (\(?-?[\d/]+\)?) = (-?[\d/]+)$")
DEAD_END = re.compile(r"^Try (\d+) ([-+*]) (\d+) = (\d+): with ([\d, ]+) there is no way to (-?\d+)\. Go back\.$")


def computed(a, op, b):
    a, b = Fraction(a.strip("()")), Fraction(b.strip("()"))
    return a + b if op == "+" else a - b if op == "-" else a * b if op == "*" else a / b


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.key)
def test_every_line_of_a_trace_is_true(problem):
    trace = solution_trace(problem)
    assert verify(trace, problem).correct
    first, *lines, last = trace.split("</think>")[0].removeprefix("<think>\n").rstrip("\n").split("\n")
    assert first == f"Use {', '.join(map(str, problem.numbers))} to reach {problem.target}."
    steps = 0
    for line in lines:
        if dead := DEAD_END.match(line):
            a, op, b, result, left, target = dead.groups()
            assert computed(a, op, b) == int(result) and int(target) == problem.target and steps == 0
            rest = tuple(map(int, left.split(", ")))
            used = sorted([*rest, int(a), int(b)])
            assert used == sorted([*problem.numbers, int(result)])
            assert not naive_solvable(rest, problem.target)
        else:
            a, op, b, result = STEP.match(line).groups()
            assert computed(a, op, b) == Fraction(result)
            steps += 1
    assert steps == len(problem.numbers) - 1
    assert last == (f"That is {problem.target}." if steps else "The number 7 is the target.")


def test_traces_try_go_back_and_have_integer_steps_and_compact_solutions_single_spaces():
    traces = [solution_trace(problem) for problem in PROBLEMS]
    assert sum("Go back." in trace for trace in traces) > 20
    assert traces == [solution_trace(problem) for problem in PROBLEMS]
    whole = Rules(integers_only=True)
    for problem in generate_problems(40, seed=12, rules=whole):
        trace = solution_trace(problem, whole)
        assert verify(trace, problem, whole).correct
        assert "/" not in re.sub(r" / |</", " ", trace.split("</think>")[0])  # no line shows a fraction
    assert compact_solution(Problem((3, 3, 8, 8), 24)) == "8 / ( 3 - 8 / 3 )"
    for problem in PROBLEMS:
        text = compact_solution(problem)
        assert all(token.isdigit() or token in "+-*/()" for token in text.split(" "))
        assert verify(text, problem, Rules(answer_format="bare")).correct


COLUMNS = {
    "nums": {"nums", "target"}, "ground_truth": {"prompt", "target", "nums", "ground_truth"},
    "prover": {"prompt", "numbers", "target"}, "solved": {"prompt", "completion", "numbers", "target"},
    "proposed": {"prompt", "completion", "numbers", "target"},
}  # fmt: skip
DOMAINS = [
    CountdownDomain.tiny(), CountdownDomain(), CountdownDomain(prover_prompt="tinyzero", conjecturer_prompt="json"),
]  # fmt: skip


@pytest.mark.parametrize("domain", DOMAINS, ids=lambda d: d.prover_prompt)
@pytest.mark.parametrize("schema", COLUMNS)
def test_rows_have_the_schemas_columns_and_read_back_as_the_problem(schema, domain):
    of_another = {"helping", "variant", "reviewed"}  # test_guide.py, each also without distractors
    assert set(ROW_SCHEMAS) == {*COLUMNS, *of_another, *(f"{name}_steps" for name in of_another)}
    problem = Problem((5, 3, 7), 22)
    row = ROW_SCHEMAS[schema](problem, domain)
    assert set(row) == COLUMNS[schema]
    assert problem_from_row(row, 0) == problem
    if schema == "solved":
        assert domain.verify([row["completion"]], [problem])[0].correct
        if domain.prover_prompt == "tinyzero":  # the prompt has begun the thinking
            assert row["prompt"].endswith("<think>") and "<think>" not in row["completion"]
    if schema == "proposed":
        assert parse_proposal(row["completion"], domain.conjecturer_prompt).problem == problem
        assert isinstance(row["prompt"], str) == isinstance(row["completion"], str)
