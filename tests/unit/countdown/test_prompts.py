# Tests: countdown/prompts.py, countdown/proposals.py, countdown/domain.py
"""The prompts byte for byte (FACTS, section 1), and what a conjecturer's text is parsed into, in all three styles."""

import pickle
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from countdown_selfplay.countdown import (
    CONJECTURER_PROMPTS,
    PROVER_PROMPTS,
    CountdownDomain,
    Problem,
    ProblemSpec,
    ProposalReason,
    Rules,
    is_solvable,
    parse_proposal,
)
from countdown_selfplay.countdown.problem import heldout_key, problem_of_key
from countdown_selfplay.countdown.prompts import PROPOSAL_TEXTS, json_example, print_like_numpy, problem_in_prompt
from countdown_selfplay.countdown.proposals import PROPOSAL_PARSERS

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
    assert user == {"role": "user", "content": REQUEST}


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


REQUEST = (
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
    assert system == {"role": "system", "content": REQUEST} and user["role"] == "user"
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
    completion = PROPOSAL_TEXTS[style](P)
    assert domain.parse([completion])[0].problem == P


JSON = {
    '<answer>{"target": 98, "numbers": [44, 19, 35]}</answer>': P,
    'Sure! <answer> {"numbers": [44, 19, 35],\n "target": 98} </answer> Enjoy.': P,
    '<answer>{"target": 98.0, "numbers": [44, 19.0, 35]}</answer>': P,
    '<answer>{"target": 98, "numbers": [44, 19, 35], "solution": "44+19+35"}</answer>': P,
    '<answer>{"target": 98, "numbers": [44, 19, 35]}': P,  # the stop string is taken away by some engines
    '<think><answer>{"target": 1, "numbers": [1]}</answer></think><answer>{"target": 98, "numbers": [44, 19, 35]}': P,
    '<answer>{"target": 1, "numbers": [1]}</answer><answer>{"target": 98, "numbers": [44, 19, 35]}</answer>': P,
    '<answer>{"target": 24, "numbers": [2, 3, 4]}</answer>': ProposalReason.COPIED_EXAMPLE,
    '{"target": 98, "numbers": [44, 19, 35]}': ProposalReason.NO_TAG,
    "": ProposalReason.NO_TAG,
    '<think><answer>{"target": 98, "numbers": [44, 19, 35]}</answer></think>': ProposalReason.NO_TAG,
    "<answer></answer>": ProposalReason.MALFORMED,
    '<answer>The problem is {"target": 98, "numbers": [44, 19, 35]}</answer>': ProposalReason.MALFORMED,
    '<answer>{"target": 98}</answer>': ProposalReason.MALFORMED,
    '<answer>{"target": 98, "numbers": "44, 19, 35"}</answer>': ProposalReason.MALFORMED,
    '<answer>{"target": 98.5, "numbers": [44]}</answer>': ProposalReason.NOT_INTEGERS,
    '<answer>{"target": 98, "numbers": [44, "19"]}</answer>': ProposalReason.NOT_INTEGERS,
    '<answer>{"target": true, "numbers": [44]}</answer>': ProposalReason.NOT_INTEGERS,
    '<answer>{"target": NaN, "numbers": [44]}</answer>': ProposalReason.NOT_INTEGERS,
    '<answer>{"target": 98, "numbers": []}</answer>': ProposalReason.NO_NUMBERS,
    '<answer>{"target": 98, "numbers": [44, 0]}</answer>': ProposalReason.NOT_POSITIVE,
    '<answer>{"target": 1e300, "numbers": [44]}</answer>': ProposalReason.TOO_LARGE,
    '<answer>{"target": 1, "numbers": [' + "1," * 150 + "1]}</answer>": ProposalReason.TOO_LARGE,
    '<answer>{"target": 1, "numbers": [' + "9" * 5000 + "]}</answer>": ProposalReason.TOO_LONG,
    "<answer>" + "[" * 100_000 + "</answer>": ProposalReason.TOO_LONG,
}  # fmt: skip

COMPLETION = {
    "44, 19, 35], target=98 </problem>": P,
    "<problem> numbers=[44, 19, 35], target=98 </problem>": P,
    "44,19,35],target=98": P,
    " 44 , 19 , 35 ] , target = 98 \n</problem>\n<problem> numbers=[1, 2], target=3 </problem>": P,
    **dict.fromkeys((
        "44, 19, 35], target=98 </problem", "44, 19, 35]", "44, 19, 35, target=98 </problem>", "",
        "44 19 35], target=98 </problem>", "44, 19, 35], target= </problem>", "forty, two], target=98 </problem>",
        "44, 19, 35], target=98 because </problem>", "٤٤, 19], target=98 </problem>",
    ), ProposalReason.MALFORMED),
    "], target=98 </problem>": ProposalReason.NO_NUMBERS,
    "44.5, 19], target=98 </problem>": ProposalReason.NOT_INTEGERS,
    "44, 19], target=98.0 </problem>": ProposalReason.NOT_INTEGERS,
    "44, +19], target=98 </problem>": ProposalReason.NOT_INTEGERS,
    "44, -19], target=98 </problem>": ProposalReason.NOT_POSITIVE,
    "44, 0], target=98 </problem>": ProposalReason.NOT_POSITIVE,
    "44], target=" + "9" * 400: ProposalReason.TOO_LARGE,
    "44, " * 30_000 + "1], target=1": ProposalReason.TOO_LONG,
}  # fmt: skip

COMPACT = {
    "3 5 7 = 22": Problem((3, 5, 7), 22), " 3 5  7=22\n": Problem((3, 5, 7), 22), "5 = 5": Problem((5,), 5),
    "3 5 7": ProposalReason.MALFORMED, "= 22": ProposalReason.MALFORMED, "3 5 7 =": ProposalReason.MALFORMED,
    "3 5 7 = 22 :": ProposalReason.MALFORMED, "3 5 7 = 22 = 22": ProposalReason.MALFORMED,
    "3 * 5 = 15": ProposalReason.MALFORMED, "": ProposalReason.MALFORMED, "3 0 7 = 22": ProposalReason.NOT_POSITIVE,
    "3 . 7 = 22": ProposalReason.NOT_INTEGERS,
}  # fmt: skip

CASES = [
    (s, t, e)
    for s, c in (("json", JSON), ("completion", COMPLETION), ("six_shots", COMPLETION), ("compact", COMPACT))
    for t, e in c.items()
]


@pytest.mark.parametrize(("style", "text", "expected"), CASES, ids=lambda x: str(x)[:40])
def test_a_proposal_is_a_problem_or_a_reason(style, text, expected):
    proposal = parse_proposal(text, style)
    if isinstance(expected, Problem):
        assert (proposal.problem, proposal.reason) == (expected, ProposalReason.OK)
    else:
        assert (proposal.problem, proposal.reason) == (None, expected)


LIKE = {"compact_any": "compact", "tier": "json", "six_shots": "completion"}
"""Styles that are read as others are."""


@pytest.mark.parametrize("style", PROPOSAL_PARSERS)
def test_a_chat_is_read_and_what_holds_no_text_is_refused(style):
    text = {t: e for s, t, e in CASES if s == LIKE.get(style, style) and isinstance(e, Problem)}
    good, expected = next(iter(text.items()))
    assert parse_proposal([{"role": "assistant", "content": good}], style).problem == expected
    for other in (None, b"3 5 7 = 22", 7, [], [{"role": "assistant", "content": None}]):
        assert parse_proposal(other, style).reason is ProposalReason.NOT_TEXT


def test_a_domain_checks_by_its_rules_and_can_be_sent():
    problems, domain = [Problem((3, 3, 8, 8), 24), Problem((1, 2, 3, 4), 24)], CountdownDomain()
    assert [one.facts["solvable"] for one in domain.check(problems)] == [True, True]
    strict = CountdownDomain(rules=Rules(integers_only=True))
    assert [one.facts["solvable"] for one in strict.check(problems)] == [False, True]
    assert domain.example_keys and pickle.loads(pickle.dumps(domain)) == domain  # the keys are cached


def test_copies_of_examples_given_by_the_caller_are_refused():
    text = "44, 19, 35], target=98 </problem>"
    assert parse_proposal(text, "completion", examples={"19,35,44=98"}).reason is ProposalReason.COPIED_EXAMPLE
    assert parse_proposal(text, "completion", examples={"19,35,44=97"}).reason is ProposalReason.OK


@settings(max_examples=200, deadline=None)
@given(
    st.text(max_size=120) | st.text(alphabet='<answer>/{}[]",:0123456789.e- targtnumbs=problem', max_size=120),
    st.sampled_from(sorted(PROPOSAL_PARSERS)),
)
def test_no_text_raises(text, style):
    for wrapped in (text, f"<answer>{text}</answer>", f'<answer>{{"target": {text}, "numbers": [{text}]}}</answer>'):
        proposal = parse_proposal(wrapped, style)
        assert (proposal.problem is None) == (proposal.reason is not ProposalReason.OK)
