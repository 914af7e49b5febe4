# Tests: warm_starts/rows.py, countdown/rows.py
"""Demonstrations are right in every line, and rows have the public schemas."""

import re
from dataclasses import replace
from fractions import Fraction

import pytest
from tests.unit.countdown.oracle import naive_solvable

from countdown_selfplay.countdown import (
    CountdownDomain,
    Problem,
    ProblemSpec,
    Rules,
    generate_problems,
    is_solvable,
    parse_proposal,
    problem_from_row,
    verify,
)
from countdown_selfplay.countdown.guide import Review, is_step
from countdown_selfplay.countdown.problem import heldout_key
from countdown_selfplay.countdown.rows import compact_solution
from countdown_selfplay.warm_starts import training
from countdown_selfplay.warm_starts.rows import ROW_SCHEMAS, helping_problem, solution_trace

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
    of_another = {"helping", "variant", "reviewed"}  # below, each also without distractors
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


FOURS = replace(CountdownDomain.tiny(), spec=ProblemSpec((2, 3, 4), 1, 12, 1, 99))


def test_demonstrations_are_solvable_of_the_training_side_and_half_or_all_of_them_steps():
    target = Problem((2, 4, 9, 5), 31)  # 2 * (4 + 9) + 5
    found = [helping_problem(target, FOURS.spec, FOURS.rules, str(seed)) for seed in range(60)]
    assert all(is_solvable(p) and FOURS.spec.admits(p) and not heldout_key(p.key) for p in found)
    assert target.key not in {p.key for p in found}
    steps = sum(is_step(target, p, FOURS.rules) for p in found)
    assert 20 <= steps <= 50  # half by their odds, and some of the others by chance
    assert found[0] == helping_problem(target, FOURS.spec, FOURS.rules, "0")
    # 2 4 9 5 = 31 has steps in every size, so that none of 60 has to be another problem.
    found = [helping_problem(target, FOURS.spec, FOURS.rules, str(seed), ("step",)) for seed in range(60)]
    assert all(is_step(target, p, FOURS.rules) for p in found) and len({p.key for p in found}) > 5


@pytest.mark.parametrize("schema", ["helping", "reviewed"])
def test_rows_ask_as_the_game_asks(schema):
    row = ROW_SCHEMAS[schema](Problem((2, 4, 9, 5), 31), FOURS)
    assert row["prompt"].endswith("like 2 4 9 5 = 31 :")
    if schema == "helping":
        assert FOURS.parse([row["completion"]])[0].problem == Problem(tuple(row["numbers"]), row["target"])
    else:
        assert FOURS.helping.read_review(row["completion"]) is not None


TINY = CountdownDomain(ProblemSpec((2, 3), 1, 12, 1, 99), Rules(answer_format="bare"), "compact", "compact")
TARGETS = [Problem((3, 5, 7), 22), Problem((2, 4, 9), 26), Problem((6, 7, 8), 50), Problem((1, 2, 3), 6)]


def test_reviews_are_counted_that_can_be_read_and_that_score_as_the_rubric(monkeypatch):
    """Of four: the rubric's own review, one with another score, one off the scale, and no review at all."""
    rows = [ROW_SCHEMAS["reviewed"](target, TINY) for target in TARGETS]
    own = TINY.helping.read_review(rows[1]["completion"])
    other = next(r for r in range(6) if Review(r, own.redundancy, 0).score != own.score)
    texts = [rows[0]["completion"], f"{other} {own.redundancy} 0", "6 0 0", "propose 3 :"]
    asked = []

    def sampled(model, tokenizer, prompts, n, **sampling):
        asked.extend(prompts)
        return [[text] for text in texts], [[False]] * len(texts)

    monkeypatch.setattr(training, "sample_texts", sampled)
    found = training.evaluate_guide(None, None, TARGETS, TINY)
    assert asked == [row["prompt"] for row in rows] and found["n"] == 4
    assert (found["readable"]["value"], found["as the rubric"]["value"]) == (0.5, 0.25)
    # Wilson's interval of 2 of 4: (2 + 1.9208 +- 1.96 sqrt(1 + .9604)) / 7.8415 = .1500, .8500
    assert found["readable"]["low"] == pytest.approx(0.15, abs=1e-3)
