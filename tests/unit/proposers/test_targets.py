# Tests: proposers/targets.py, guides/__init__.py, guides/judge.py, guides/rubric.py
"""The proposers of seed 003: targets, with a problem for each unsolved one; STP, with variants of solved ones; and its
guides (section 3.2), which score a proposal beside the provers."""

import logging
from pathlib import Path

import numpy as np
import pytest

from countdown_selfplay.contract.game import Outcome, Proposal
from countdown_selfplay.countdown import CountdownDomain, Problem, ProblemSpec, Rules
from countdown_selfplay.countdown.guide import _steps, rubric
from countdown_selfplay.games.propose_and_solve import ProposeAndSolve
from countdown_selfplay.guides import checked_scores
from countdown_selfplay.guides.judge import Judge
from countdown_selfplay.guides.rubric import Rubric
from countdown_selfplay.objectives import make_objective
from countdown_selfplay.proposers import make_proposer
from countdown_selfplay.proposers.targets import Targets
from countdown_selfplay.rewards import make_conjecturer_reward
from countdown_selfplay.testing import ScriptedRound

DOMAIN = CountdownDomain(ProblemSpec((2, 3), 1, 12, 1, 99), Rules(answer_format="bare"), "compact", "compact")
EASY = Problem((3, 5, 7), 22)
HARD = Problem((2, 4, 9), 26)  # 2 * ( 4 + 9 )
FAR = Problem((6, 7, 8), 50)  # 6 * 7 + 8
HELP = {"propose like 2 4 9 = 26 :": "4 9 = 13", "propose like 6 7 8 = 50 :": "6 7 = 42"}
RIGHT = {
    "3 5 7 = 22 :": "3 * 5 + 7", "2 4 9 = 26 :": "2 * ( 4 + 9 )", "6 7 8 = 50 :": "6 * 7 + 8", "4 9 = 13 :": "4 + 9",
    "6 7 = 42 :": "6 * 7", "5 7 = 12 :": "5 + 7", "3 7 = 21 :": "3 * 7",
}  # fmt: skip


def script(right):
    """`right`: prompt -> how many of its four answers are right."""

    def write(player, row, i):
        if player == "conjecturer":
            return HELP.get(row["prompt"], "3 5 = 15")
        return RIGHT[row["prompt"]] if i < right.get(row["prompt"], 0) else "1"

    return write


def played(right, sizes=None, problems=(EASY, HARD, FAR), objectives=None, **more):
    sizes = {"prover": (8, 4), "conjecturer": (4, 1)} if sizes is None else sizes
    objectives = objectives or {role: make_objective("reinforce_half") for role in ("conjecturer", "prover")}
    return ScriptedRound(script(right), sizes, DOMAIN, objectives=objectives, problems=list(problems), **more)


def game(**arguments):
    return ProposeAndSolve(make_proposer("targets", arguments), make_conjecturer_reward("sgs", {"starved": "paper"}))


def turn_of(result, player="conjecturer"):
    (turn,) = [turn for turn in result.turns if turn.rollout.role == player]
    return turn


def test_a_target_is_solved_for_good_and_gets_no_more_problems():
    made, round = game(), played({"3 5 7 = 22 :": 1, "4 9 = 13 :": 2})
    result = made.play(round, [])
    asked = [row["prompt"] for row in round.rows["conjecturer"]]
    assert asked == ["propose like 3 5 7 = 22 :", *HELP]  # nothing was solved before the round
    # three targets and three problems; 1 of 3 targets solved, 4 9 = 13 at .5 is trainable, 3 5 = 15 at 0 is not
    assert len(round.rows["prover"]) == 6 and result.metrics["round/anchor_slots"] == 3
    assert result.metrics["targets/solve_rate"] == pytest.approx(1 / 3)
    assert result.metrics["targets/pass_at_n"] == pytest.approx(1 / 3)
    assert (result.metrics["targets/newly_solved"], result.metrics["targets/trainable"]) == (1, 1)
    second = round.next()
    result = made.play(second, [])
    assert [row["prompt"] for row in second.rows["conjecturer"]] == list(HELP)  # the solved one gets none
    assert len(second.rows["prover"]) == 5  # and is attempted all the same
    third = round.next(index=2, write=script({}))  # it is no longer solved, and stays so
    assert made.play(third, []).metrics["targets/solve_rate"] == pytest.approx(1 / 3)
    assert [row["prompt"] for row in third.rows["conjecturer"]] == list(HELP)
    assert made.proposer.solved == {EASY.key: 1} and made.proposer.history == {HARD.key: "110", FAR.key: "000"}


def test_a_proposal_that_is_a_target_is_refused_and_counts_as_no_attempt_at_it():
    # three are asked for: the first writes another target, the second its own in another order, the third a step
    copies = {"propose like 3 5 7 = 22 :": "2 4 9 = 26", "propose like 2 4 9 = 26 :": "9 4 2 = 26"}
    plain = script({"6 7 = 42 :": 2})
    round = played({}, sizes={"prover": (8, 4), "conjecturer": (4, 1)})
    round.write = lambda player, row, i: copies.get(row["prompt"]) or plain(player, row, i)
    made = game()
    result = made.play(round, [])
    prompts = [row["prompt"] for row in round.rows["prover"]]
    assert sorted(prompts) == sorted(["6 7 = 42 :", "3 5 7 = 22 :", "2 4 9 = 26 :", "6 7 8 = 50 :"])
    assert result.metrics["targets/copied"] == pytest.approx(2 / 3) and result.metrics["targets/asked"] == 3
    assert made.proposer.solved == {} and {key: n for key, _, n in result.solved}[HARD.key] == 4
    turn = turn_of(result)
    assert turn.advantages_B.tolist() == [0.0, 0.0, 1.0]


def test_the_conjecturer_earns_r_solve_and_the_round_that_solves_a_target_is_no_history():
    # 4 9 = 13 is solved twice of four, the others never: R_solve .5, 0, 0; the top 30% of three problems is none
    result = game().play(played({"4 9 = 13 :": 2}), [])
    turn = turn_of(result)
    assert turn.group == 1 and turn.advantages_B.tolist() == [0.0, 1.0, 0.0]  # without a baseline
    assert result.metrics["round/reward_r_solve"] == pytest.approx(0.5 / 3)
    made, round = game(batch=1), played({"3 5 7 = 22 :": 1, "2 4 9 = 26 :": 1, "6 7 8 = 50 :": 1})
    made.play(round, [])
    # two targets were not in the round and have no history; a mark that they had stays
    made.proposer.history = dict.fromkeys(made.proposer.history, "1")
    for index in (1, 2):
        made.play(round.next(index=index), [])
    assert sorted(story for _, _, story in made.proposer.stories) == ["", "1", "1"]


def test_without_conditioning_or_a_conjecturer_there_are_problems_or_targets_alone():
    round = played({})
    made = game(conditioned=False)
    made.play(round, [])
    assert [row["prompt"] for row in round.rows["conjecturer"]] == ["propose like :"] * 3
    assert set(made.proposer.history.values()) == {""}  # no problem is for the sake of a target: nothing is measured
    round = played({"3 5 7 = 22 :": 4}, {"prover": (3, 4)})
    made = game()
    result = made.play(round, [])
    assert len(round.rows["prover"]) == 3 and result.metrics["targets/solve_rate"] == pytest.approx(1 / 3)
    assert made.proposer.history == {HARD.key: "", FAR.key: ""} and made.proposer.stories == [[EASY.key, 1, ""]]
    assert "round/starved" not in result.metrics and "targets/trainable" not in result.metrics


def test_batches_go_through_the_set_and_expert_iteration_until_a_target_has_its_answers():
    problems = [Problem((2, 3, n), 6 * n) for n in range(1, 8)]
    made = Targets(batch=3)
    seen = []
    for index in range(7):
        seen += [p.key for p in made.targets(played({}, problems=problems, index=index), [])]
    assert len(seen) == 21 and all(seen.count(problem.key) == 3 for problem in problems)
    assert set(seen[:7]) == {problem.key for problem in problems}
    made, round = game(), played({"3 5 7 = 22 :": 2}, {"prover": (3, 4)}, limits={"prover": 4})
    for index in range(3):
        round = round.next(index=index)
        made.play(round, [])
    assert len(round.rows["prover"]) == 2  # 2 + 2 right answers: done with after two rounds


def test_unsolvable_targets_are_set_aside_and_when_all_are_solved_nothing_is_proposed(caplog):
    bad = Problem((1, 1, 1), 99)
    with caplog.at_level(logging.WARNING):
        result = game().play(played({}, problems=[EASY, bad, HARD]), [])
    assert result.metrics["targets/set_aside"] == 1 and "1 of 3 targets have no solution" in caplog.text
    assert result.metrics["round/anchor_slots"] == 2
    made, round = game(), played({"3 5 7 = 22 :": 1, "2 4 9 = 26 :": 1, "6 7 8 = 50 :": 1})
    assert made.play(round, []).metrics["round/starved"] == 0
    assert "All 3 targets are solved after 1 rounds" in caplog.text
    result = made.play(round.next(), [])
    assert "round/starved" not in result.metrics and result.metrics["targets/unsolved"] == 0
    assert made.archive.starved_rounds == 0 and [len(turn.rollout.texts) for turn in result.turns] == [12, 0]


def test_targets_that_every_answer_solves_and_a_set_that_changed_are_reported(caplog):
    # round 1: 4 of 4 answers to the first target, 1 of 4 to the second; round 2: 4 of 4 to all that are attempted
    made, round = game(), played({"3 5 7 = 22 :": 4, "2 4 9 = 26 :": 1})
    result = made.play(round, [])
    assert "1 of 3 targets that were attempted first in round 1 were solved by every answer" in caplog.text
    assert f"(a pass@1 of 1): {EASY.key}." in caplog.text and result.metrics["targets/mastered"] == 1
    caplog.clear()
    again = round.next(write=script({"3 5 7 = 22 :": 4, "2 4 9 = 26 :": 4, "6 7 8 = 50 :": 4}))
    assert made.play(again, []).metrics["targets/mastered"] == 1 and "pass@1" not in caplog.text
    assert made.state_dict()["proposer"]["mastered"] == [EASY.key]
    first, second = game(), game()
    first.play(played({"3 5 7 = 22 :": 1}), [])
    second.load_state_dict(first.state_dict())
    with caplog.at_level(logging.WARNING):
        result = second.play(played({}, problems=[HARD, FAR, Problem((1, 2, 3), 6)], index=1), [])
    assert f"1 new (1,2,3=6), 1 gone ({EASY.key})" in caplog.text and result.metrics["targets/solve_rate"] == 0
    made = game()
    made.load_state_dict({**game().state_dict(), "proposer": {}})
    assert made.proposer.known == [] and made.play(played({}), []).metrics["targets/unsolved"] == 3


@pytest.mark.parametrize(("there", "here", "said"), [
    ("abcde", "cdefghi", "4 new (f, g, h, ...), 2 gone (a, b)"),
    ("ab", "ba", "the same ones, in another order or number"),
    ("abx", "ab", "0 new (none), 1 gone (x)"),  # x was set aside
])  # fmt: skip
def test_the_difference_of_two_sets_is_said_in_counts_and_first_ones(there, here, said):
    state = {"known": [key for key in there if key != "x"], "aside": ["x"] * ("x" in there)}
    assert Targets.changed(state, list(here)) == said


def test_ten_bins_of_the_time_before_a_target_is_solved():
    # 20 rounds; from the eleventh on its problem is trainable; solved in the twenty-first: .0 in five tenths, then 1
    made = game()
    for index in range(21):
        right = {"4 9 = 13 :": 2 if index >= 10 else 0, "2 4 9 = 26 :": int(index == 20)}
        result = made.play(played(right, problems=[HARD], index=index), [])
    bins = [result.metrics[f"targets/presolve_{k}"] for k in range(10)]
    assert bins == [0.0] * 5 + [1.0] * 5 and made.proposer.history == {}


LIKE_EASY = "propose like 3 5 7 = 22 : 3 * 5 + 7 :"


def stp_round(right, index=0, proposals=("5 7 = 12", "3 7 = 21")):
    """`right`: prompt -> how many of its four answers are right. `proposals`: of the round, in their order."""
    texts, answer = iter(proposals), script(right)
    objectives = {"conjecturer": make_objective("rest", {"tau": 1.0, "rounds": 3})}
    round = played(right, index=index, objectives=objectives)
    round.write = lambda player, row, i: next(texts) if player == "conjecturer" else answer(player, row, i)
    return round


def stp_game():
    reward = make_conjecturer_reward("binary_band", {"low": 0.01, "high": 0.25})
    return ProposeAndSolve(make_proposer("stp", {}), reward)


def test_a_solved_target_and_its_answer_are_shown_once_for_each_unsolved_one():
    made, round = stp_game(), stp_round({"3 5 7 = 22 :": 1})
    first = made.play(round, [])
    assert round.rows["conjecturer"] == [] and "round/starved" not in first.metrics  # nothing was solved before
    assert made.proposer.answers == {EASY.key: "3 * 5 + 7"}
    # two targets are unsolved, one is solved: it is shown twice
    second = stp_round({"5 7 = 12 :": 1, "3 7 = 21 :": 2}, index=1)
    result = made.play(second, [])
    assert [row["prompt"] for row in second.rows["conjecturer"]] == [LIKE_EASY, LIKE_EASY]
    # 1 of 4 right earns 1 (at most a quarter), 2 of 4 nothing; a target gets no history of problems for its sake
    turn = turn_of(result)
    assert turn.advantages_B.tolist() == [1.0, 0.0] and turn.selected_B.tolist() == [True, False]
    assert made.proposer.history == {HARD.key: "", FAR.key: ""}


def test_a_proposal_that_is_a_target_is_no_variant_is_not_played_and_earns_nothing():
    made = stp_game()
    made.play(stp_round({"3 5 7 = 22 :": 1}), [])
    # the first writes the problem that it was shown in another order, the second an unsolved target; both have answers
    # that would earn 1
    second = stp_round({"3 5 7 = 22 :": 1, "2 4 9 = 26 :": 1}, index=1, proposals=("7 3 5 = 22", "2 4 9 = 26"))
    result = made.play(second, [])
    assert [row["prompt"] for row in second.rows["conjecturer"]] == [LIKE_EASY, LIKE_EASY]
    assert [row["prompt"] for row in second.rows["prover"]] == ["3 5 7 = 22 :", "2 4 9 = 26 :", "6 7 8 = 50 :"]
    turn = turn_of(result)
    assert turn.advantages_B.tolist() == [0.0, 0.0] and turn.selected_B.tolist() == [False, False]
    assert result.metrics["targets/copied"] == 1


def test_solved_targets_take_turns_and_a_resumed_run_shows_the_same_ones():
    straight, resumed = stp_game(), stp_game()
    straight.play(stp_round({"3 5 7 = 22 :": 1, "2 4 9 = 26 :": 4}), [])
    resumed.load_state_dict(straight.state_dict())
    rounds = [stp_round({}, index=1, proposals=["5 7 = 12"]) for _ in range(2)]
    for made, round in zip((straight, resumed), rounds, strict=True):
        made.play(round, [])
        assert len(round.rows["conjecturer"]) == 1  # one target is unsolved
        assert round.rows["conjecturer"][0]["prompt"] in (LIKE_EASY, "propose like 2 4 9 = 26 : 2 * ( 4 + 9 ) :")
    assert rounds[0].rows == rounds[1].rows and straight.state_dict() == resumed.state_dict()
    assert straight.proposer.answers == {EASY.key: "3 * 5 + 7", HARD.key: "2 * ( 4 + 9 )"}


def test_the_prompt_holds_the_answer_and_not_the_thoughts_and_recipes_are_those_of_seed_003():
    domain = CountdownDomain(ProblemSpec((3, 4), 1, 99, 1, 100), conjecturer_prompt="completion")
    text = "<think> 3 * 5 = 15 </think> <answer> 3 * 5 + 7 </answer>"
    prompt = domain.propose_row(variant_of=EASY, solution=text)["prompt"]
    assert "numbers=[3, 5, 7], target=22 </problem>\n3 * 5 + 7\n" in prompt and "think" not in prompt
    chat = CountdownDomain(conjecturer_prompt="json").propose_row(variant_of=EASY, solution=text)["prompt"]
    assert "\n3 * 5 + 7\n" in chat[-1]["content"] and "NOT be identical" in chat[-1]["content"]
    folder = Path(__file__).resolve().parents[3] / "examples" / "recipes" / "tiny"
    text = (folder / "sgs_stp.yaml").read_text()
    assert "prover_objective: expert_iteration" in text and "high: 0.25" in text and "guide:" not in text


STEP, SUM, PADDED = Problem((4, 9), 13), Problem((6, 7), 13), Problem((1, 3, 5), 15)


def outcome(rate_P, *pairs, solutions=None):
    """`pairs`: (target, problem), each with its solve rate out of four."""
    proposals = [Proposal(problem, request={"target": target}) for target, problem in pairs]
    bits = np.array([[[i < round(4 * rate) for i in range(4)] for rate in rate_P]], dtype=float)
    texts = solutions or ["1" if rate else None for rate in rate_P]
    nan_N = np.full(len(pairs), np.nan)
    problems = [problem for _, problem in pairs]
    return proposals, Outcome(proposals, nan_N, problems, list(range(len(pairs))), bits, texts)


def test_the_rubric_scores_what_was_solved():
    # 2 * ( 4 + 9 ): 4 9 = 13 is its last step but one, 5 + 2 + 1; 6 7 = 13 is no part of 6 * 7 + 8, but shares two of
    # three numbers (2 + 2 + 1); what nobody solved is not reviewed
    proposals, found = outcome([0.5, 0.5, 0.0], (HARD, STEP), (FAR, SUM), (EASY, PADDED))
    guide = type("Narrow", (Rubric,), {"scale": (5, 8)})()  # both ends belong to a scale
    scores = checked_scores(guide, ScriptedRound(lambda *_: "", {"prover": (2, 4)}, DOMAIN), proposals, found)
    assert scores[:2].tolist() == [8, 5] and np.isnan(scores[2])


def test_numbers_that_cancel_or_only_multiply_by_one_are_redundant_and_an_artificial_value_is_complex():
    plain, redundant = ["3 * 5 + 7", "-3 + 5"], ["( 3 - 3 ) + 5 * 2", "1 * 7 + 3", "7 / 1 + 3", "4 / 4 + 9"]
    assert [_steps(solution)[0] for solution in plain + redundant] == [False] * 2 + [True] * 4
    # 99 * 98 - 97 * 100 = 2: values of 9,702, more than 10 times the greatest number
    of = Problem((2, 3, 5, 7), 24), Problem((99, 98, 97, 100), 2)
    assert rubric(*of, solution="99 * 98 - 97 * 100").complexity == rubric(*of).complexity + 1


def test_a_judge_reviews_what_was_solved_and_its_failures_count_as_the_mean():
    reviews = {"score 4 9 = 13 like 2 4 9 = 26 :": "3 1 0", "score 6 7 = 42 like 6 7 8 = 50 :": "9 0 0"}
    solved = script({"4 9 = 13 :": 2, "6 7 = 42 :": 2})
    round = played({}, {"prover": (8, 4), "conjecturer": (4, 1), "guide": (8, 1)})
    round.write = lambda player, row, i: reviews[row["prompt"]] if player == "guide" else solved(player, row, i)
    reward = make_conjecturer_reward("sgs", {"starved": "paper"})
    result = ProposeAndSolve(Targets(), reward, Judge()).play(round, [])
    assert [row["prompt"] for row in round.rows["guide"]] == list(reviews)  # not 3 5 = 15, which nobody solved
    # 3 + 2 + 0 = 5; the other says 9 of 5, is not read, and counts as 5 too; the problem that nobody solved earns 0
    assert result.metrics["guide/format_rate"] == 0.5 and result.metrics["guide/reviews"] == 2
    assert result.metrics["round/reward_r_guide"] == 5
    assert turn_of(result).advantages_B.tolist() == [0.0, 1.0, 1.0]
