# Tests: countdown/environment.py
"""Countdown as an environment of TRL's trainers: what tools say; rewards equal to the verifier's and the ladder's."""

import inspect
import random

from transformers.utils import get_json_schema

from countdown_selfplay.countdown import CountdownDomain, CountdownEnvironment, CountdownMovesEnvironment


def row(problem):
    return {"prompt": [{"role": "user", "content": ""}], "numbers": list(problem.numbers), "target": problem.target}


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
            environment.reset(**row(problem))
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
