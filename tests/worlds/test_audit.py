# Tests: worlds/audit.py, worlds/gym_scorers.py, worlds/gym_worker.py, worlds/gym_tasks.py, worlds/math_check.py
"""No text of a model runs, in any domain, and what a domain and its scorers pay for texts that solve nothing."""

import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import pytest

from countdown_selfplay.countdown import CountdownDomain
from countdown_selfplay.countdown.exact.solver import solve
from countdown_selfplay.domains import make_domain
from countdown_selfplay.errors import ConfigError
from countdown_selfplay.worlds import gym_scorers
from countdown_selfplay.worlds.audit import PLANTED, audit
from countdown_selfplay.worlds.detachment.domain import DetachmentDomain
from countdown_selfplay.worlds.gym_scorers import polynomial_of, score
from countdown_selfplay.worlds.gym_tasks import table
from countdown_selfplay.worlds.workers import Workers
from tests.toy_domain import Sums

TASKSETS = Path(__file__).parent / "tasksets"
BOX = "\\boxed{ANSWER}"
RAN = "__import__('pathlib').Path('{file}').touch()"


def closed(domain, *given):
    try:
        return audit(domain, *given)
    finally:
        if getattr(domain, "_pool", None) is not None:
            domain._pool.close()


def nothing(found):
    """Planted answers do not run, the given answers are right, and no text that solves nothing is, but for the answer
    to another problem."""
    assert found.ran == () and found.right in (None, 1.0)
    assert all(one.right == 0 for kind, one in found.paid.items() if kind != "constant"), found.paid


class Evaluates(Sums):
    """The toy domain with a verifier that evaluates."""

    def verify(self, texts, problems):
        return super().verify([self.value(text) for text in texts], problems)

    def value(self, text):
        try:
            return str(eval(text))
        except Exception:
            return ""


def test_a_domain_that_evaluates_is_found_and_countdown_and_detachment_pay_for_no_junk():
    problems = [(3, 5), (2, 9)]
    found = audit(Evaluates(), problems, ["8", "11"])
    assert set(PLANTED[:6]) <= set(found.ran) and found.right == 1.0
    assert found.paid["right or other"].right == 0.5  # "8 or 11" is 8, and "11 or 8" is not
    assert found.paid["constant"].right == 0.5  # 8, for one of two
    assert audit(Sums(), problems, ["8", "11"]).ran == ()
    domain = CountdownDomain.tiny()
    problems = domain.random(4, 0)
    answers = [str(solve(problem)) for problem in problems]
    nothing(audit(domain, problems, answers))
    domain = DetachmentDomain()
    nothing(audit(domain, domain.random(4, 0), ()))


def test_math_qa():
    pytest.importorskip("math_verify", reason="needs the extra math: pip install 'countdown-selfplay[math]'")
    domain = make_domain("math_qa", {"deadline": 600.0, "workers": 1})
    answers = ["18", "\\frac{1}{2}", "x^2+1"]
    problems = [domain.problem({"question": f"What is it? ({i})", "answer": one}) for i, one in enumerate(answers)]
    nothing(closed(domain, problems, answers, BOX))


def test_sympy_evaluates_numbers_and_names_alone_where_mathematics_is_checked(tmp_path):
    pytest.importorskip("math_verify", reason="needs the extra math: pip install 'countdown-selfplay[math]'")
    code = (
        "from countdown_selfplay.worlds import math_check\n"
        "import sympy\n"
        "print(sympy.sympify('2.50'), sympy.sympify('x'), math_check.check(['0.5', '\\\\frac12']))\n"
        f"sympy.sympify({RAN.format(file=tmp_path / 'ran')!r})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["2.50000000000000", "x", "True"]
    assert "is neither a number nor a name" in done.stderr and not (tmp_path / "ran").exists()


def test_a_taskset_of_verifiers(monkeypatch):
    pytest.importorskip("verifiers.v1", reason="needs the extra verifiers")
    monkeypatch.syspath_prepend(str(TASKSETS))
    domain = make_domain("verifiers", {"taskset": "small_sums", "chat": False, "workers": 1, "deadline": 600.0})
    found = closed(domain, domain.random(1, 0))
    assert found.ran == () and all(one.right == 0 for one in found.paid.values()), found.paid


EVALUATED = [
    *("countdown", "puzzle24", "n_queens", "binary_matrix", "string_insertion", "spiral_matrix"),
    *("polynomial_multiplication", "simple_integration"),
]
JUNK = ["complex_arithmetic", "number_sorting", "coin_flip", "game_of_life_halting", "bitwise_arithmetic"]


@pytest.fixture(scope="module")
def gym():
    pytest.importorskip("reasoning_gym", reason="needs the extra gym: pip install 'countdown-selfplay[gym]'")
    from countdown_selfplay.worlds.reasoning_gym import ReasoningGym

    domain = ReasoningGym([*EVALUATED, *JUNK], prompt="bare", workers=2, deadline=120.0)
    yield domain
    domain.close()


@pytest.mark.parametrize("task", [*EVALUATED, *JUNK])
def test_tasks_whose_scorers_of_the_package_evaluate_or_pay_for_nothing(gym, task):
    from countdown_selfplay.worlds.reasoning_gym import GymProblem

    lowest = (0,) * len(table()["tasks"][task]["knobs"])
    made = [one for one in gym._made([GymProblem(task, lowest, seed) for seed in range(6)]) if hasattr(one, "answer")]
    problems = list({one.answer: one for one in made}.values())  # a constant is right for one alone
    found = audit(gym, problems, [one.answer for one in problems])
    nothing(found)
    if task == "n_queens":
        assert found.right == 1.0  # a board may be an answer to several
    else:
        assert found.paid["constant"].right == pytest.approx(1 / len(problems)), found.paid
    counts = gym._pool.counts
    assert counts["timed_out"] == counts["died"] == counts["batch_timed_out"] == 0


def test_a_scorer_that_runs_an_answer_is_not_let_and_its_worker_is_fresh_afterwards(gym, tmp_path):
    """The scorer of intermediate_integration, which the domain refuses, hands the answer to SymPy's parse_expr."""
    pool = Workers(gym.checker, processes=1, deadline=120.0)
    scorer = "sys.modules['reasoning_gym.arithmetic.chain_sum'].ChainSumDataset.score_answer"
    patch = f'exec("import sys; {scorer} = lambda *a: 1.0")'
    texts = [RAN.format(file=tmp_path / "ran"), patch]
    items = [["score", "intermediate_integration", [0], 1, text] for text in texts]
    said = pool.map([*items, ["score", "chain_sum", [0, 0], 1, "no idea"]])
    pool.close()
    assert said == [0.0, 0.0, 0.0] and not (tmp_path / "ran").exists()
    assert pool.counts["ready"] == 3  # one after each answer that it was asked to run
    assert pool.counts["died"] == 0


def test_bombs_cost_no_deadline(gym):
    bombs = ["9**9**9**9", "1e999999999", "(" * 60_000, "[" * 60_000, "-" * 60_000 + "1", "1/" * 30_000, "9" * 60_000]
    problems = gym.random(8, 3)
    before = dict(gym._pool.counts)
    asked = [(bomb, problem) for problem in problems for bomb in bombs]
    said = gym.verify([bomb for bomb, _ in asked], [problem for _, problem in asked])
    assert not any(verdict.correct for verdict in said)
    assert {reason: gym._pool.counts[reason] - before.get(reason, 0) for reason in ("timed_out", "died")} == {
        "timed_out": 0,
        "died": 0,
    }


def test_a_problem_may_take_longer_than_an_answer():
    pytest.importorskip("reasoning_gym", reason="needs the extra gym: pip install 'countdown-selfplay[gym]'")
    from countdown_selfplay.worlds.reasoning_gym import MAKING, ReasoningGym
    from tests.worlds.gym_checkers import BUSY

    class Busy(ReasoningGym):
        checker = "tests.worlds.gym_checkers:busy"

    domain = Busy("chain_sum", prompt="bare", workers=1, deadline=BUSY / 2)
    assert MAKING * domain.deadline > 2 * BUSY
    problems = domain.random(1, 0)
    assert len(problems) == 1 and domain.verify(["hang"], problems)[0].reason == "timed_out"
    domain.close()


@pytest.mark.parametrize(("scorer", "message"), [
    (None, "'chain_sum' of reasoning-gym is not played: its scorer has not been read, and a scorer may run what"),
    ({"files": ["arithmetic/chain_sum.py"], "digest": "0"},
     r"its scorer \(arithmetic/chain_sum.py\) is not the one that was read, .* reinstall reasoning-gym"),
])  # fmt: skip
def test_a_scorer_that_was_not_read_is_refused(monkeypatch, scorer, message):
    pytest.importorskip("reasoning_gym", reason="needs the extra gym: pip install 'countdown-selfplay[gym]'")
    monkeypatch.setitem(table()["tasks"]["chain_sum"], "scorer", scorer)
    with pytest.raises(ConfigError, match=message):
        make_domain("reasoning_gym", {"task": "chain_sum"})


def test_every_played_task_has_the_scorer_that_was_read():
    pytest.importorskip("reasoning_gym", reason="needs the extra gym: pip install 'countdown-selfplay[gym]'")
    played = [task for task, row in table()["tasks"].items() if not row["refused"]]
    make_domain("reasoning_gym", {"task": played})
    assert "intermediate_integration" not in played and len(played) == 95


COUNTDOWN = {"answer": "3*7 + 1", "metadata": {"numbers": [1, 3, 7], "target": 22}}
POWER = {"answer": "8", "metadata": {"numbers": [2, 3], "target": 8}}
PUZZLE24 = {"answer": "2*3*8/2", "metadata": {"numbers": [2, 2, 3, 8]}}
MATRIX = {"answer": "0 1\n1 2", "metadata": {}}
SPIRAL = {"answer": "1 2 4 3", "metadata": {}}
STRING = {"answer": "ABCDA", "metadata": {}}
QUEENS = {"answer": "Q _\n_ _", "metadata": {"valid_answers": ["Q _\n_ _", "_ Q\n_ _"]}}
PRODUCT = {"answer": "x**2*y - 6*y", "metadata": {}}
# d/dx (3x^4/4 - x + C) = 3x^3 - 1
INTEGRAL = {"answer": "3*x**4/4 - x + C", "metadata": {"integrand": "3*x**3 - 1", "variable": "x"}}
FLIPS = {"answer": "9.765625e-05", "metadata": {}}
HALTS = {"answer": "False", "metadata": {}}
BITS = {"answer": "-0xa", "metadata": {}}


SCORES = {
    "countdown": [
        (COUNTDOWN, {"1 + 7*3": 1, "-(-1 - 7*3)": 1, "22": 0, "3*7 + 1 + 0*1": 0, "3*7 + 1/1": 0, "7/(1 - 3/3)": 0}),
        (POWER, {"2**3": 0}), ({"answer": "", "metadata": {"numbers": [7, 2], "target": 3}}, {"7//2": 0}),
        ({"answer": "9", "metadata": {"numbers": [9] * 4, "target": 9}}, {"9**9**9**9": 0}),
        (COUNTDOWN, {"(" * 60_000: 0}),
    ],
    "puzzle24": [
        (PUZZLE24, {"8*3*2/2": 1, "6*4*1*1": 0}),  # four numbers of the range, not the ones that are given
        ({"answer": "", "metadata": {"numbers": [7, 7, 2, 1]}}, {"7*7/2*1": 0}),  # 24.5
    ],
    "binary_matrix": [(MATRIX, {"0 1\n1 2": 1, "[[0, 1], [1, 2]]": 0.1, "[0, 1, 1, 2]": 0, "[" * 5000: 0,
                                "[[0, 1], [1, 1 + 1]]": 0})],
    "spiral_matrix": [(SPIRAL, {"1 2 4 3": 1, "[1, 2, 4, 3]": 0.1, "range(1, 4)": 0})],
    "string_insertion": [(STRING, {"ABCDA": 1, "['A', 'B', 'C', 'D', 'A']": 0.1, "'ABCD' + 'A'": 0})],
    "n_queens": [(QUEENS, {"_ Q\n_ _": 1, "[['_', 'Q'], ['_', '_']]": 0.5, "_ _\n_ _": 0})],
    "polynomial_multiplication": [(PRODUCT, {"-6*y + y*x**2": 1, "y*(x**2 - 6)": 0, "expand(y*(x**2 - 6))": 0,
                                             "x**2*y - 6*y or 0": 0})],
    "simple_integration": [(INTEGRAL, {"0.75*x**4 - x": 1, "(3/4)*x**4 - x + 7": 1, "(3*x**4)/4 - x + C": 1,
                                       "3*x**4 - x + C": 0, "Integral(3*x**3 - 1, x)": 0, "x/0": 0})],
    "coin_flip": [(FLIPS, {"1/10240": 1, "0.0000976": 1, "0": 0, "1e999999999": 0, "1/0": 0})],
    "game_of_life_halting": [(HALTS, {"false": 1, "True": 0, "I do not know": 0})],
    "bitwise_arithmetic": [(BITS, {"-10": 1, "-0xA": 1, "10": 0, "9" * 5000: 0})],
}  # fmt: skip


@pytest.mark.parametrize("task", SCORES)
def test_what_is_right_and_what_solves_nothing(task):
    for entry, scores in SCORES[task]:
        assert {answer: score(task, None, entry, answer) for answer in scores} == scores


POLYNOMIALS = {
    "6": {(): 6}, "2 * x ** 2 - x + 1": {(("x", 2),): 2, (("x", 1),): -1, (): 1}, "x*y*x": {(("x", 2), ("y", 1)): 1},
    "x - x": {}, "-(3/4)*x**4": {(("x", 4),): Fraction(-3, 4)}, "(2*x)/4": {(("x", 1),): Fraction(1, 2)},
}  # fmt: skip
NO_POLYNOMIALS = [
    *("", "2 x", "1 2*x", "x**-1", "x**(2)", "2*(x + 1)", "sin(x)", "f(3)", "x = 2", "5/(3*x)", "(2*x)**2"),
    *("(3)/(4)", "(x*)*2", "()+x"),
    *("(1)(2)*x", "(3)5*x", "3.(5)*x", "(3).5*x"),  # brackets that are removed must not write a number or a power
]


def test_polynomials():
    assert {text: polynomial_of(text) for text in POLYNOMIALS} == POLYNOMIALS
    assert [text for text in NO_POLYNOMIALS if polynomial_of(text) is not None] == []


def taking_all(answer="1"):
    return SimpleNamespace(score_answer=lambda *_: 1.0), {"answer": answer, "metadata": {}}


@pytest.mark.parametrize("answer", ["nan", "[NaN, 1]", "-inf", "Infinity", "nanj", "1 + infj"])
def test_what_compares_as_no_number_does_is_not_right(answer):
    dataset, entry = taking_all()
    assert score("chain_sum", dataset, entry, answer) == 0.0 and score("chain_sum", dataset, entry, "banana") == 1.0
    dataset, entry = taking_all("nan, a grandmother")
    assert score("sentence_reordering", dataset, entry, answer) == 1.0


def test_no_text_is_right_where_the_answer_is_empty_and_who_asks_python_for_more_ends(monkeypatch):
    dataset, entry = taking_all("")
    assert [score("polynomial_equations", dataset, entry, text) for text in ("", '""', "none")] == [1.0, 1.0, 0.0]
    monkeypatch.setattr(gym_scorers, "_asked_for", [])
    dataset, entry = taking_all()
    dataset.score_answer = lambda *_: gym_scorers.watch("exec", ())
    with pytest.raises(SystemExit) as end:
        score("chain_sum", dataset, entry, "1")
    assert end.value.code == 0.0 and not gym_scorers._watched
    gym_scorers.watch("exec", ())  # nothing is scored
