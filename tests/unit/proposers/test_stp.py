# Tests: proposers/targets.py
"""STP: problems that are asked for as variants of solved targets, with their answers."""

from pathlib import Path

from countdown_selfplay.countdown import CountdownDomain, ProblemSpec
from countdown_selfplay.games import ProposeAndSolve
from countdown_selfplay.objectives import make_objective
from countdown_selfplay.proposers import make_proposer
from countdown_selfplay.rewards import make_conjecturer_reward
from countdown_selfplay.testing import ScriptedRound

from .test_targets import DOMAIN, EASY, FAR, HARD

LIKE_EASY = "propose like 3 5 7 = 22 : 3 * 5 + 7 :"
RIGHT = {"3 5 7 = 22 :": "3 * 5 + 7", "2 4 9 = 26 :": "2 * ( 4 + 9 )", "5 7 = 12 :": "5 + 7", "3 7 = 21 :": "3 * 7"}


def played(right, index=0, proposals=("5 7 = 12", "3 7 = 21")):
    """`right`: prompt -> how many of its four answers are right. `proposals`: of the round, in their order."""
    texts = iter(proposals)

    def write(player, row, i):
        if player == "conjecturer":
            return next(texts)
        return RIGHT[row["prompt"]] if i < right.get(row["prompt"], 0) else "1"

    sizes = {"prover": (8, 4), "conjecturer": (4, 1)}
    objectives = {"conjecturer": make_objective("rest", {"tau": 1.0, "rounds": 3})}
    return ScriptedRound(write, sizes, DOMAIN, index, objectives, problems=[EASY, HARD, FAR])


def game():
    return ProposeAndSolve(
        make_proposer("stp", {}), make_conjecturer_reward("binary_band", {"low": 0.01, "high": 0.25})
    )


def test_a_solved_target_and_its_answer_are_shown_once_for_each_unsolved_one():
    made, round = game(), played({"3 5 7 = 22 :": 1})
    first = made.play(round, [])
    assert round.rows["conjecturer"] == [] and "round/starved" not in first.metrics  # nothing was solved before
    assert made.proposer.answers == {EASY.key: "3 * 5 + 7"}
    # two targets are unsolved, one is solved: it is shown twice
    second = played({"5 7 = 12 :": 1, "3 7 = 21 :": 2}, index=1)
    result = made.play(second, [])
    assert [row["prompt"] for row in second.rows["conjecturer"]] == [LIKE_EASY, LIKE_EASY]
    # 1 of 4 right earns 1 (at most a quarter), 2 of 4 nothing; a target gets no history of problems for its sake
    (turn,) = [turn for turn in result.turns if turn.rollout.role == "conjecturer"]
    assert turn.advantages_B.tolist() == [1.0, 0.0] and turn.selected_B.tolist() == [True, False]
    assert made.proposer.history == {HARD.key: "", FAR.key: ""}


def test_a_proposal_that_is_a_target_is_no_variant_is_not_played_and_earns_nothing():
    made = game()
    made.play(played({"3 5 7 = 22 :": 1}), [])
    # the first writes the problem that it was shown in another order, the second an unsolved target; both have answers
    # that would earn 1
    second = played({"3 5 7 = 22 :": 1, "2 4 9 = 26 :": 1}, index=1, proposals=("7 3 5 = 22", "2 4 9 = 26"))
    result = made.play(second, [])
    assert [row["prompt"] for row in second.rows["conjecturer"]] == [LIKE_EASY, LIKE_EASY]
    assert [row["prompt"] for row in second.rows["prover"]] == ["3 5 7 = 22 :", "2 4 9 = 26 :", "6 7 8 = 50 :"]
    (turn,) = [turn for turn in result.turns if turn.rollout.role == "conjecturer"]
    assert turn.advantages_B.tolist() == [0.0, 0.0] and turn.selected_B.tolist() == [False, False]
    assert result.metrics["targets/copied"] == 1


def test_solved_targets_take_turns_and_a_resumed_run_shows_the_same_ones():
    straight, resumed = game(), game()
    straight.play(played({"3 5 7 = 22 :": 1, "2 4 9 = 26 :": 4}), [])
    resumed.load_state_dict(straight.state_dict())
    rounds = [played({}, index=1, proposals=["5 7 = 12"]) for _ in range(2)]
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
