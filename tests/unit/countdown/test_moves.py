# Tests: countdown/moves.py, contract/domain.py, countdown/environment.py
"""Countdown in moves: one operation a move, judged exactly, and what the domain does with it; and as an environment of
TRL's trainers: what tools say, and rewards equal to the verifier's and the ladder's."""

import inspect
import json
import random

import pytest
from transformers.utils import get_json_schema

from countdown_selfplay.config.fields import CountdownFields
from countdown_selfplay.contract.domain import BaseDomain, in_moves
from countdown_selfplay.countdown import (
    CountdownDomain,
    CountdownEnvironment,
    CountdownMovesEnvironment,
    Problem,
    ProblemSpec,
    Reason,
    Rules,
)
from countdown_selfplay.countdown.verifier import MoveReason, Verdict
from countdown_selfplay.domains import domain_from, make_domain

BARE = Rules(answer_format="bare")
SPEC = ProblemSpec((3, 4), 1, 12, 1, 99)
TINY = CountdownDomain(SPEC, BARE, "compact_moves", "compact_any", answers="moves")
CHAT = CountdownDomain(SPEC, prover_prompt="moves", answers="moves")
FOUR = Problem((3, 4, 5, 6), 24)


def moved(text, state, target=24, domain=TINY):
    return domain.moved([text], [Problem((3, 4, 5, 6), target)], [state])[0]


def test_an_episode_by_hand_whose_state_is_a_problem_with_fewer_numbers():
    state = TINY.begin(FOUR)
    assert TINY.move_row(FOUR, state) == {"prompt": "3 4 5 6 : 24", "numbers": [3, 4, 5, 6], "target": 24}
    state = moved("6 * 4 = 24", state)
    assert state == [24, 3, 5]
    assert TINY.move_row(FOUR, state)["prompt"] == "24 3 5 : 24"
    state = moved("5 - 3 = 2", state)
    assert state == [2, 24]
    missed = moved("24 / 2 = 12", state)
    assert (missed.reason, missed.score, missed.value, missed.correct) == (MoveReason.MISSED, 0.1, 12, False)
    solved = moved("24 / 2 = 12", state, target=12)
    assert (solved.reason, solved.score, solved.vote, solved.correct) == (Reason.CORRECT, 1.0, "12", True)
    state = moved("6 * 4 = 24", TINY.begin(FOUR))
    assert json.loads(json.dumps(state)) == state
    row = TINY.move_row(FOUR, state)
    left = TINY.problem(row)
    assert left == Problem((24, 3, 5), 24) and TINY.prove_row(left) == row


@pytest.mark.parametrize(("text", "state", "reason"), [
    ("6 * 4 = 24 5", [3, 4, 5, 6], MoveReason.GRAMMAR),  # text after the move
    ("6 * 4 = 24\n5 - 3 = 2", [3, 4, 5, 6], MoveReason.GRAMMAR),  # two moves
    ("6 * 4", [3, 4, 5, 6], MoveReason.GRAMMAR),
    ("06 * 4 = 24", [3, 4, 5, 6], MoveReason.GRAMMAR),
    ("( 6 * 4 ) = 24", [3, 4, 5, 6], MoveReason.GRAMMAR),
    ("5 / 2 = 2.5", [2, 5], MoveReason.GRAMMAR),
    ("6 * 7 = 42", [3, 4, 5, 6], MoveReason.OPERAND),  # 7 is not there
    ("6 + 6 = 12", [3, 4, 5, 6], MoveReason.OPERAND),  # 6 is there once
    ("0 + 6 = 6", [3, 4, 5, 6], MoveReason.OPERAND),
    ("3 - 5 = -2", [3, 5], MoveReason.RANGE),  # below 1
    ("5 - 5 = 0", [5, 5], MoveReason.RANGE),
    ("5 / 3 = 1", [5, 3], MoveReason.RANGE),  # a fraction
    ("3 / 6 = 2", [3, 6], MoveReason.RANGE),  # a fraction, the order counts
    ("10 * 10 = 100", [10, 10], MoveReason.RANGE),  # above 99
    ("50 + 50 = 24", [50, 50], MoveReason.RANGE),  # illegal, whatever result is claimed
    ("6 * 4 = 23", [3, 4, 5, 6], MoveReason.ARITHMETIC),
    ("6 * 4 = -24", [3, 4, 5, 6], MoveReason.ARITHMETIC),
    ("5 + 3 = 8", [5, 3], MoveReason.MISSED),
    ("", [5, 3], Reason.EMPTY),
    (" \n", [5, 3], Reason.EMPTY),
    (" " * 5 + "1" * 257, [5, 3], Reason.TOO_LONG),
    (None, [5, 3], Reason.NOT_TEXT),
    (b"5 + 3 = 8", [5, 3], Reason.NOT_TEXT),
    ("5 + 3 = 8", [8], MoveReason.OPERAND),  # a single number is no move away from anything
])  # fmt: skip
def test_every_fault_has_its_reason(text, state, reason):
    verdict = moved(text, state)
    assert verdict.reason is reason and not verdict.correct
    invalid = isinstance(reason, Reason) or reason is MoveReason.GRAMMAR
    assert verdict.score == (0.0 if invalid else 0.1)


def test_a_chat_model_puts_its_move_in_tags():
    user = CHAT.move_row(FOUR, [24, 3, 5])["prompt"][-1]["content"]
    assert "Numbers left: 24, 3, 5\nTarget: 24\n" in user and "from 1 to 99" in user
    said = "<think> 6 * 4 <answer>3 + 4 = 7</answer> </think> So <answer> 6 * 4 = 24 </answer>."
    assert moved(said, [3, 4, 5, 6], domain=CHAT) == [24, 3, 5]
    assert moved([{"role": "assistant", "content": said}], [3, 4, 5, 6], domain=CHAT) == [24, 3, 5]
    assert moved("6 * 4 = 24", [3, 4, 5, 6], domain=CHAT).reason is Reason.NO_ANSWER
    inside = "<think> <answer>6 * 4 = 24</answer> </think>"
    assert moved(inside, [3, 4, 5, 6], domain=CHAT).reason is Reason.ANSWER_IN_THINKING
    twice = "<answer>6 * 4 = 24</answer> <answer>4 + 3 = 7</answer>"
    assert moved(twice, [3, 4, 5, 6], domain=CHAT) == [7, 5, 6]
    first = CountdownDomain(SPEC, Rules(answer_rule="first"), "moves", answers="moves")
    assert moved(twice, [3, 4, 5, 6], domain=first) == [24, 3, 5]


HOSTILE = [
    "9" * 4000 + " + 1 = 2", "3 + 4 = " + "9" * 4096, "٣ + ٤ = ٧", "３ ＋ ４ ＝ ７", "3 + 4 = 7" + "\x00",
    "3 + 4 = 7\u00a0", "\ud800", "3 ** 4 = 81", "1e1 + 3 = 13", "3 + 4 = " + "-" * 200 + "7", "<answer>" * 100_000,
    "<answer>" * 50_000 + "</answer>" * 50_000, "<think>" * 100_000 + "</think>", "3 + 4 " * 200_000, " " * 1_000_000,
    "3 +" + " " * 1_000_000 + "4 = 7", {"role": "assistant"}, [], [{"role": "assistant", "content": None}], 7,
    object(),
]  # fmt: skip


@pytest.mark.parametrize(
    "domain", [TINY, CHAT, CountdownDomain(SPEC, Rules(max_chars=4096), "moves", answers="moves")]
)
def test_hostile_texts_end_an_episode_at_once(domain):
    for text in HOSTILE:  # pytest's own time limit would end one that hangs
        verdict = moved(text, [3, 4, 5, 6], domain=domain)
        assert isinstance(verdict, Verdict) and not verdict.correct
        if isinstance(text, str):
            assert not moved(f"<answer>{text}</answer>", [3, 4, 5, 6], domain=domain).correct


def test_a_domain_is_in_moves_when_it_says_so_and_asks_once_for_any_size():
    assert in_moves(TINY) and not in_moves(CountdownDomain.tiny()) and not in_moves(BaseDomain())
    assert TINY.most_moves == 3 and TINY.rung(FOUR) == 4 and CountdownDomain.tiny().rung(FOUR) == 4
    one = CountdownDomain(ProblemSpec((1,), 1, 12, 1, 99), BARE, "compact_moves", answers="moves")
    assert one.most_moves == 1 and one.begin(Problem((5,), 5)) == [5]
    two = Problem((4, 6), 24)
    found = TINY.verify(["6 * 4 = 24", "6 + 4 = 10", "6 * 4 = 24"], [two, two, FOUR])
    assert [one.reason for one in found] == [Reason.CORRECT, MoveReason.MISSED, MoveReason.UNFINISHED]
    assert TINY.asks == ({},) and TINY.propose_row() == {"prompt": "propose :"}
    assert TINY.propose_row(operands=4)["prompt"] == "propose :"
    assert not TINY.asks_operands
    proposals = TINY.parse(["3 4 5 6 = 24", "3 4 5 = 12", "3 4 = 12", "3 4 5 : 12"])
    assert [p.problem for p in proposals] == [FOUR, Problem((3, 4, 5), 12), Problem((3, 4), 12), None]
    found = TINY.check([p.problem for p in proposals[:3]], [{}, {}, {}])
    assert [(one.reason, one.facts) for one in found] == [
        ("ok", {"in_range": True}), ("ok", {"in_range": True}), ("out_of_range", {"in_range": False}),
    ]  # fmt: skip


def test_a_proposal_is_admitted_without_a_solver_and_stop_strings_that_cut_a_move_are_seen():
    large = CountdownDomain(ProblemSpec((3, 20), 1, 12, 1, 100), BARE, "compact_moves", "compact_any", answers="moves")
    unsolvable, twenty, beyond = Problem((1, 1, 1), 99), Problem((12,) * 20, 24), Problem((3, 4, 5), 100)
    assert [one.reason for one in large.check([unsolvable, twenty, beyond])] == ["ok", "ok", "out_of_range"]
    assert large.facts == ("in_range",) and "value_high" in str(large.outside(beyond))
    assert TINY.cut_by("prover", ["="]) == "3 - 2 = 1" and TINY.cut_by("prover", ["\n"]) is None
    assert CHAT.cut_by("prover", ["</answer>"]) is None and CHAT.cut_by("prover", ["<answer>"]) is not None
    assert TINY.cut_by("conjecturer", ["="]) == "3 5 7 = 22"


def test_a_configuration_describes_it():
    domain = domain_from(CountdownFields(
        answers="moves", operands=[3, 4, 20], number_high=12, target_low=1, target_high=99,
        prover_prompt="compact_moves", conjecturer_prompt="compact_any",
    ))  # fmt: skip
    assert in_moves(domain) and domain.rules.answer_format == "bare" and domain.rungs == (3, 4, 20)
    recorded = domain.to_dict()
    assert (recorded["answers"], recorded["value_high"]) == ("moves", 99)
    assert "answers" not in CountdownDomain.tiny().to_dict()
    assert not in_moves(make_domain("tests.toy_domain:Sums"))


def test_tools_have_schemas_and_the_question_has_the_numbers_the_target_and_the_tool():
    """As TRL finds them: every public function of the class but `reset` and `get_reward`."""
    for environment, name, argument in ((CountdownEnvironment, "submit", "expression"),
                                        (CountdownMovesEnvironment, "move", "move")):  # fmt: skip
        public = [one for one, _ in inspect.getmembers(environment, inspect.isfunction) if not one.startswith("_")]
        assert public == sorted([name, "reset", "get_reward"])
        function = get_json_schema(getattr(environment(), name))["function"]
        assert function["name"] == name and function["parameters"]["required"] == [argument]
        assert function["parameters"]["properties"][argument]["type"] == "string"
    question = CountdownEnvironment().reset(numbers=[3, 5, 7], target=22)
    assert "3, 5, 7" in question and "22" in question and "`submit`" in question
    assert "`move`" in CountdownMovesEnvironment().reset(numbers=[3, 5, 7], target=22)
    own = CountdownEnvironment(ask=lambda problem: f"{problem.target}!")
    assert own.reset(numbers=[3, 5, 7], target=22) == "22!"


def test_the_first_answer_counts_and_what_follows_the_end_changes_nothing():
    environment = CountdownEnvironment()
    environment.reset(nums=[3, 5, 7], target=22)
    assert environment.submit("3 + 5 + 7") == "wrong_value, 15"
    assert environment.submit("3 * 5 + 7") == "The game is over: the first answer counts."
    assert environment.get_reward() == 0.1
    for text in (None, 22, ["3 * 5 + 7"], "<answer> 3 * 5 + 7 </answer>"):
        environment.reset(nums=[3, 5, 7], target=22)
        environment.submit(text)
        assert environment.get_reward() < 1.0
    environment = CountdownMovesEnvironment()
    environment.reset(numbers=[2, 3, 4], target=24)
    assert environment.move("3 * 4 = 12") == "Numbers left: 12, 2. Target: 24."
    assert environment.move("12 - 2 = 10") == "missed"
    assert environment.move("12 * 2 = 24").startswith("The game is over") and environment.get_reward() == 0.1


def test_a_game_in_moves_earns_what_the_ladder_says_of_it():
    """Whole demonstrations of 3 to 6 numbers, each also broken off, mistaken in a move, or with an illegal one."""
    domain, environment, draw, seen = CountdownDomain.ladder(), CountdownMovesEnvironment(), random.Random(1), set()
    for moves in domain.demonstrations(60, seed=2, rungs=[3, 4, 5, 6]):
        problem = domain.problem(moves[0][0])
        for how in ("whole", "short", "false", "illegal"):
            texts = [text for _, text in moves]
            place = draw.randrange(len(texts))
            texts = texts[:place] if how == "short" else texts
            if how in ("false", "illegal"):
                texts[place] = {"false": texts[place] + "9", "illegal": "98 + 1 = 99"}[how]
            environment.reset(numbers=list(problem.numbers), target=problem.target)
            state = domain.begin(problem)
            for text in texts:
                said = environment.move(text)
                (state,) = domain.moved([text], [problem], [state])
                if hasattr(state, "correct"):
                    break
                assert said.startswith(f"Numbers left: {', '.join(map(str, state))}.")
            assert environment.get_reward() == (state.score if hasattr(state, "correct") else 0.0)
            seen.add((how, environment.get_reward()))
    assert {("whole", 1.0), ("short", 0.0), ("false", 0.1), ("illegal", 0.1)} <= seen
