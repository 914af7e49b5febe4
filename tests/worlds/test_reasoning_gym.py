# Tests: worlds/reasoning_gym.py, worlds/gym_worker.py, worlds/gym_tasks.py
"""The domain reasoning_gym: equal problems everywhere, its own scorers' verdicts, broken scorers."""

import json
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

from countdown_selfplay.domains import held_out_by_rung, make_domain
from countdown_selfplay.errors import ConfigError, DataError, UnknownNameError
from countdown_selfplay.evaluation.summary import pass_by_axes
from countdown_selfplay.games.health import axes_health
from countdown_selfplay.worlds.gym_tasks import read_proposal, table
from countdown_selfplay.worlds.workers import Reason, Unchecked

pytest.importorskip("reasoning_gym", reason="needs the extra gym: pip install 'countdown-selfplay[gym]'")

from countdown_selfplay.worlds.reasoning_gym import HELD_OUT, MAX_ANSWER, GymProblem, ReasoningGym

SUMS = {"task": "chain_sum", "levels": {"num_terms": [0, 2], "num_digits": [0, 1]}, "prompt": "bare"}


def domain_of(**given):
    return make_domain("reasoning_gym", {**SUMS, **given})


@pytest.fixture(scope="module")
def sums():
    domain = domain_of()
    yield domain
    domain.close()


@pytest.fixture(scope="module")
def mixture():
    domain = make_domain("reasoning_gym", {"task": ["chain_sum", "count_bits", "basic_arithmetic"]})
    yield domain
    domain.close()


@pytest.fixture(scope="module")
def hostile():
    class Hostile(ReasoningGym):
        checker = "tests.worlds.gym_checkers:run"

    domain = Hostile(**SUMS, deadline=5.0)
    yield domain
    domain.close()


def value_of(question):
    """The sum that a question of chain_sum asks for, by Python."""
    return str(eval(question.split(":")[1].strip().removesuffix("=")))


def test_the_axes_are_the_settings_of_a_problems_task_and_rounds_and_evaluations_count_them(mixture):
    own = [mixture.problem({"task": "chain_sum", "levels": [2, 0], "seed": seed}) for seed in (5, 6)]
    other = mixture.problem({"task": "count_bits", "levels": [1], "seed": 5})
    (setting,) = [name for name in mixture.axes(other) if name != "rung"]
    assert setting.startswith("count_bits.") and mixture.axes(other) == {"rung": 1, setting: 1}
    assert mixture.axes(own[0]) == {"rung": 2, "chain_sum.num_terms": 2, "chain_sum.num_digits": 0}
    played = axes_health(mixture, [], [*own, other], np.array([1.0, 0.5, 0.25]))
    rates = {name: value for name, value in played.items() if name.endswith("_solve_rate") and "rung" not in name}
    assert rates == {
        "round/chain_sum.num_terms_2_solve_rate": 0.75,
        "round/chain_sum.num_digits_0_solve_rate": 0.75,
        f"round/{setting}_1_solve_rate": 0.25,
    }
    more = mixture.problem({"task": "chain_sum", "levels": [0, 0], "seed": 5})
    axes = [mixture.axes(problem) for problem in (own[0], other, more)]
    assert pass_by_axes(axes, [4, 0, 1], 4, [1]) == {
        "pass@1/chain_sum.num_terms_0": 0.25,
        "pass@1/chain_sum.num_terms_2": 1.0,
    }


def test_a_problem_has_the_terms_and_digits_of_its_levels_whose_sum_is_its_rung(sums):
    # num_terms has the levels 2, 3, 4, ... and num_digits 1, 2, ...; a level is the step from one to the next
    for terms in range(3):
        for digits in range(2):
            (problem,) = [sums.problem({"task": "chain_sum", "levels": [terms, digits], "seed": 5})]
            numbers = [one for one in problem.question.split(":")[1].removesuffix("=").split() if one.isdigit()]
            assert terms + 2 <= len(numbers) <= terms + 3, problem
            assert all(len(number) <= digits + 2 for number in numbers), problem
            assert problem.answer == value_of(problem.question)
    assert sums.rungs == [0, 1, 2, 3]
    for rung in sums.rungs:
        found = sums.random_of_rung(5, rung, 0)
        assert len(found) == 5 and all(sum(p.levels) == rung == sums.rung(p) for p in found)
    assert [sums.rung(p) for p in held_out_by_rung(sums, None, 2)] == [0, 0, 1, 1, 2, 2, 3, 3]
    sums.random(2, 0)
    again = pickle.loads(pickle.dumps(sums))
    assert again._pool is None and again.to_dict() == sums.to_dict()


def test_random_problems_are_a_function_of_the_seed_and_held_out_ones_have_seeds_of_their_own(sums):
    first, again = sums.random(40, 1), domain_of().random(40, 1)
    assert first == again and [p.question for p in first] == [p.question for p in again]
    assert len({p.question for p in first}) == 40 and first != sums.random(40, 2)
    left = sums.random(40, 1, frozenset(map(sums.key, first[:10])))
    assert not {p.question for p in first[:10]} & {p.question for p in left}
    held = sums.held_out(20)
    assert held == sums.held_out(20) and all(p.seed >= HELD_OUT and sums.is_held_out(p) for p in held)
    assert not any(sums.is_held_out(p) for p in sums.random(20, 0))
    # the same question with a seed of the training side has the key of the held-out one
    twin = GymProblem("chain_sum", held[0].levels, 3, held[0].question)
    assert sums.key(twin) == sums.key(held[0]) and not sums.is_held_out(twin)


def test_another_process_with_other_random_numbers_and_hashes_makes_the_same_problems(mixture):
    code = (
        "import json, random, numpy; random.seed(7); numpy.random.seed(7)\n"
        "from countdown_selfplay.domains import make_domain\n"
        "domain = make_domain('reasoning_gym', {'task': ['chain_sum', 'count_bits', 'basic_arithmetic']})\n"
        "print(json.dumps([p.question for p in domain.random(24, 3)]))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "123", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [p.question for p in mixture.random(24, 3)]


def test_a_question_that_depends_on_the_day_is_made_on_a_fixed_one(hostile):
    import datetime

    from countdown_selfplay.worlds import gym_worker

    there = sys.modules["reasoning_gym.arithmetic.time_intervals"]
    assert there.date.today() == datetime.date(2025, 1, 1)
    assert gym_worker.datetime.date.today() > datetime.date(2025, 6, 1)


@pytest.mark.parametrize(("row", "message"), [
    ({"task": "gcd", "levels": [0, 0], "seed": 1}, "row 3, column 'task': 'gcd' is not one of the domain's tasks"),
    ({"task": "chain_sum", "levels": [0], "seed": 1}, "column 'levels': .* one for each setting of 'chain_sum'"),
    ({"task": "chain_sum", "levels": [0, True], "seed": 1}, "column 'levels'"),
    ({"task": "chain_sum", "levels": None, "seed": 1}, "column 'levels'"),
    ({"task": "chain_sum", "levels": [0, 7], "seed": 1}, "num_digits is 7, and it goes from 0 to 1"),
    ({"task": "chain_sum", "levels": [0, 0], "seed": -1}, "column 'seed': -1 must be a whole number below"),
    ({"task": "chain_sum", "levels": [0, 0]}, "column 'seed': None"),
])  # fmt: skip
def test_a_row_that_is_no_problem_is_refused_by_row_and_column(sums, row, message):
    with pytest.raises(DataError, match=message):
        sums.problem(row, 3)


def test_full_scores_are_right_partial_ones_are_kept_and_a_megabyte_is_not_scored(sums):
    problem = sums.problem({"task": "chain_sum", "levels": [2, 1], "seed": 1})
    right = value_of(problem.question)
    said = sums.verify([right, f" {right}\n", right + "00", "", "x"], [problem] * 5)
    assert [v.correct for v in said] == [True, True, False, False, False]
    # an answer that contains the right one scores len(right) / len(answer), by reasoning-gym's default scorer
    assert said[2].score == pytest.approx(len(right) / (len(right) + 2)) and said[2].reason == Reason.WRONG
    assert said[3].reason == Reason.NO_ANSWER and said[4].score == 0.0
    (problem,) = sums.random(1, 0)
    (long, fits) = sums.verify(["9" * 1_000_000, "9" * MAX_ANSWER], [problem] * 2)
    assert (long.reason, long.score, long.unchecked) == (Reason.TOO_LONG, 0.0, False) and fits.reason == Reason.WRONG


def test_own_answers_of_a_mixture_are_right(mixture):
    (problem,) = mixture.random_of_rung(1, 0, 0)
    texts = [f"<answer>1</answer> no: <answer> {problem.answer} </answer>.", problem.answer, "<answer>1"]
    assert [v.reason for v in mixture.verify(texts, [problem] * 3)] == ["correct", "no_answer", "no_answer"]
    problems = mixture.random(30, 9)
    assert all(v.correct for v in mixture.verify([f"<answer>{p.answer}</answer>" for p in problems], problems))
    assert {p.task for p in problems} == {"chain_sum", "count_bits", "basic_arithmetic"}
    for problem in mixture.random(6, 0):
        row = mixture.prove_row(problem)
        assert mixture.problem(row) == problem and mixture.problem(row).question == problem.question
        assert row["prompt"][-1] == {"role": "user", "content": problem.question}
    named = {"task": "chain_sum", "levels": {"num_digits": 1, "num_terms": 3}, "seed": 4}
    assert mixture.problem(named).levels == (3, 1)


def test_an_answer_that_hangs_kills_or_breaks_its_scorer_costs_itself_alone(hostile):
    problems = hostile.random(5, 0)
    said = hostile.verify(["hang", "die", "raise", *(p.answer for p in problems[3:])], problems)
    assert [v.reason for v in said] == ["timed_out", "died", "error", "correct", "correct"]
    assert [v.unchecked for v in said] == [True, True, True, False, False] and [v.score for v in said[:3]] == [0.0] * 3
    assert hostile._pool.counts["timed_out"] == 1 and hostile._pool.counts["died"] == 1


def test_a_proposal_is_read_strictly():
    assert read_proposal("chain_sum: num_terms=3, num_digits=1") == ("chain_sum", {"num_terms": 3, "num_digits": 1})
    assert read_proposal("  gcd: value=0\n") == ("gcd", {"value": 0}) and read_proposal("acre:") == ("acre", {})
    refused = [
        "chain_sum: num_terms=3,num_digits=1", "chain_sum: num_terms=03", "chain_sum: num_terms=-1",
        "chain_sum: num_terms=1, num_terms=1", "chain_sum num_terms=1", "The task: chain_sum: num_terms=1",
        "chain_sum: num_terms=1\nchain_sum: num_terms=2", "chain_sum: num_terms=1.", "chain_sum: num_terms=١", "",
    ]  # fmt: skip
    assert [text for text in refused if read_proposal(text) is not None] == []


def test_proposals_are_checked_and_drawn(sums):
    texts = [
        "chain_sum: num_terms=1, num_digits=0", "chain_sum: num_terms=9, num_digits=0",
        "chain_sum: num_digits=0, num_terms=1", "gcd: num_terms=1", "9" * 1_000_000,
    ]  # fmt: skip
    read = sums.parse(texts)
    assert [one.reason for one in read] == ["ok", "ok", "other_settings", "unknown_task", "unreadable"]
    asked = [{"task": "chain_sum"}, {"task": "chain_sum"}]
    checked = sums.check([read[0].problem, read[1].problem], asked)
    assert [one.reason for one in checked] == ["ok", "out_of_range"]
    assert sums.check([read[0].problem], [{"task": "gcd"}])[0].reason == "not_as_asked"
    drawn = sums.drawn([read[0].problem] * 4, seed=8, exclude=frozenset())
    assert len({sums.key(p) for p in drawn}) == 4 and all(p.levels == (1, 0) and p.seed < HELD_OUT for p in drawn)
    assert drawn == sums.drawn([read[0].problem] * 4, 8) and {*map(sums.undrawn, drawn)} == {read[0].problem}
    others = sums.drawn([read[0].problem] * 4, 8, frozenset(map(sums.key, drawn)))
    assert not {sums.key(p) for p in drawn} & {sums.key(p) for p in others}


def test_a_task_without_settings_is_played_and_not_proposed():
    domain = make_domain("reasoning_gym", {"task": "list_functions", "prompt": "bare"})
    problems = domain.random(3, 0)
    assert [p.levels for p in problems] == [()] * 3 and domain.rungs == [0] and domain.asks == ()
    assert domain.parse is None and domain.propose_row is None and domain.drawn is None
    assert all(v.correct for v in domain.verify([p.answer for p in problems], problems))
    domain.close()


@pytest.mark.parametrize(("given", "error", "message"), [
    ({"task": "chain_smu"}, UnknownNameError, "no task 'chain_smu'. Did you mean 'chain_sum'"),
    ({"levels": {"num_terms": 99}}, ConfigError, "num_terms of the task 'chain_sum' 99, and its levels are 0 to"),
    ({"levels": {"num_terms": [2, 1]}}, ConfigError, r"'chain_sum' \[2, 1\], and its levels are 0 to"),
    ({"levels": {"num_terms": "3"}}, ConfigError, "and its levels are 0 to"),
    ({"levels": {"num_term": 1}}, ConfigError, "num_term, which is not a setting .* Did you mean 'num_terms'"),
    ({"levels": {"gcd": {"value": 1}}}, ConfigError, "must be a mapping for each"),
    ({"task": ["chain_sum", "gcd"]}, ConfigError, "of the tasks chain_sum, gcd must be a mapping for each"),
    ({"task": "composite", "levels": None}, ConfigError, "'composite' of reasoning-gym is not played: .*at least one"),
    ({"task": "propositional_logic", "levels": None}, ConfigError, "is not played: .* without an answer"),
    ({"task": []}, ConfigError, "`task`"),
    ({"prompt": "short"}, ConfigError, "`prompt` .* must be one of chat, text, bare"),
    ({"deadline": 0}, ConfigError, "`deadline`"),
])  # fmt: skip
def test_what_cannot_be_played_is_refused_in_a_sentence(given, error, message):
    with pytest.raises(error, match=message):
        domain_of(**given)


def test_another_version_of_the_package_is_refused(monkeypatch):
    monkeypatch.setitem(table(), "reasoning_gym", "0.0.1")
    with pytest.raises(ConfigError, match=r"plays the problems of reasoning-gym 0\.0\.1, and .* is installed"):
        domain_of()


def test_levels_that_a_generator_refuses_or_hangs_at_are_named(hostile, monkeypatch):
    monkeypatch.setattr(hostile, "_made", lambda problems: [Unchecked("timed_out") for _ in problems])
    with pytest.raises(DataError, match=r"chain_sum at levels .* is not made: timed out \(12 times the `deadline` of"):
        hostile.random(2, 0)
    monkeypatch.setattr(hostile, "_made", lambda problems: [Unchecked("error") for _ in problems])
    with pytest.raises(DataError, match="None of 2 problems of chain_sum is made"):
        hostile.random(2, 0)
    assert hostile.drawn([GymProblem("chain_sum", (0, 0))], 0) == [None]
