# Tests: countdown/prompts.py
"""The prompts byte for byte (FACTS, section 1), and NumPy's way to print numbers."""

import random

import numpy as np
import pytest

from countdown_selfplay.countdown import CONJECTURER_PROMPTS, PROVER_PROMPTS, Problem, ProblemSpec, is_solvable
from countdown_selfplay.countdown.domain import CountdownDomain
from countdown_selfplay.countdown.problem import heldout_key, problem_of_key
from countdown_selfplay.countdown.prompts import json_example, print_like_numpy, problem_in_prompt
from countdown_selfplay.countdown.rows import proposed_row

P = Problem((44, 19, 35), 98)

USER = (
    "A conversation between User and Assistant. The user asks a question, and the Assistant solves it. The assistant first thinks about the reasoning process in the mind and then provides the user with the answer.\n"  # noqa: E501
    "User: Using the numbers [44 19 35], create an equation that equals 98. You can use basic arithmetic operations (+, -, *, /) and each number can only be used once. Show your work in <think> </think> tags. And return the final answer in <answer> </answer> tags, for example <answer> (1 + 2) / 3 </answer>.\n"  # noqa: E501
    "Assistant: Let me solve this step by step."
)


def test_the_prompts_of_the_public_checkpoints_byte_for_byte():
    assert PROVER_PROMPTS["countdown_3to4"](P) == [
        {"role": "system", "content": "You are a helpful assistant."},
        {"role": "user", "content": USER},
    ]
    expected = USER.replace("[44 19 35]", "[44, 19, 35]") + "\n<think>"
    assert PROVER_PROMPTS["tinyzero"](P) == expected
    system, user = CONJECTURER_PROMPTS["json"](3, ProblemSpec())
    assert system == {"role": "system", "content": "You are a helpful assistant."}
    assert user == {"role": "user", "content": JSON}


def test_numbers_are_printed_as_numpy_does_and_a_prompts_problem_is_read_back():
    generator = random.Random(0)
    for count in range(1, 101):
        for digits in (1, 2, 3, 9):
            numbers = [generator.randint(1, 10**digits) for _ in range(count)]
            assert print_like_numpy(numbers) == str(np.array(numbers))
    # The inverse of the public renderings; what asks for nothing legal is None.
    for style in ("countdown_3to4", "tinyzero"):
        prompt = PROVER_PROMPTS[style](P)
        assert problem_in_prompt(prompt if isinstance(prompt, str) else prompt[1]["content"]) == P
    for text in ("", "numbers [1, 2]", "numbers [0, 2] equals 3", "numbers [] equals 3", "numbers [1 2] [3] equals 4"):
        assert problem_in_prompt(text) is None


JSON = (
    "Generate a NEW countdown arithmetic problem that uses exactly 3 distinct positive integers from 1 to 99. The target must be an integer from 10 to 100 that can be reached by using every number exactly once with the operations +, -, *, / and parentheses. Do NOT copy the example below; invent different numbers and a different target.\n"  # noqa: E501
    'Example: <answer>{"target": 24, "numbers": [2, 3, 4]}</answer>\n'
    'Output ONLY the answer tags with JSON inside: <answer>{"target": <integer>, "numbers": [<integer>, ...]}</answer>'
)


@pytest.mark.parametrize("operands", [1, 2, 3, 4, 5, 6])
def test_the_json_examples_are_solvable_and_of_the_size_asked_for(operands):
    assert len(json_example(operands).numbers) == operands
    assert is_solvable(json_example(operands))


def test_the_tier_prompt_says_or_more_and_the_six_fixed_shots_are_solvable():
    """Seed 000, section 3.3."""
    domain = CountdownDomain(conjecturer_prompt="tier")
    system, user = domain.propose_row(operands=3)["prompt"]
    assert system == {"role": "system", "content": JSON} and user["role"] == "user"
    top = domain.propose_row(operands=4, or_more=True)["prompt"][0]["content"]
    assert "uses 4 or more distinct positive integers from 1 to 99." in top and "[1, 2, 3, 4]" in top
    # the stop string is kept in the text, and the parser takes it with and without
    assert domain.stop_strings("conjecturer/1") == ["</answer>"] and domain.stop_strings("prover") is None
    texts = ['<answer>{"target": 24.0, "numbers": [4, 5, 1]}</answer>', '<answer>{"target": 24, "numbers": [4, 5, 1]}']
    assert [p.problem for p in domain.parse(texts)] == [Problem((4, 5, 1), 24)] * 2
    # Seed 001's authors: six fixed shots of three and four numbers, prefilled; a copy of one is refused.
    domain = CountdownDomain(conjecturer_prompt="six_shots")
    prompt = CONJECTURER_PROMPTS["six_shots"](3, ProblemSpec())
    assert prompt == CONJECTURER_PROMPTS["six_shots"](4, ProblemSpec()) and prompt.endswith("\n<problem> numbers=[")
    shots = [domain.parse([line])[0] for line in prompt.split("\n")[1:7]]
    assert all(shot.reason == "copied_example" for shot in shots) and len(domain.example_keys) == 6
    problems = [problem_of_key(key) for key in domain.example_keys]
    assert sorted(len(p.numbers) for p in problems) == [3, 3, 3, 4, 4, 4]
    assert all(is_solvable(p) and ProblemSpec().admits(p) and not heldout_key(p.key) for p in problems)
    assert domain.stop_strings("conjecturer") == ["</problem>"]
    assert domain.parse(["44, 19, 35], target=98 \n\n"])[0].problem == P  # a blank line ends a proposal too


@pytest.mark.parametrize("style", CONJECTURER_PROMPTS)
def test_a_demonstration_of_each_conjecturer_prompt_is_read_back_as_its_problem(style):
    domain = CountdownDomain(conjecturer_prompt=style)
    completion = proposed_row(P, domain)["completion"]
    assert domain.parse([completion])[0].problem == P
