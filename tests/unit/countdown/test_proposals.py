# Tests: countdown/proposals.py, countdown/domain.py
"""What a conjecturer's text is parsed into, in all three styles."""

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from countdown_selfplay.countdown import CountdownDomain, Problem, ProposalReason, Rules, parse_proposal
from countdown_selfplay.countdown.proposals import PROPOSAL_PARSERS

P = Problem((44, 19, 35), 98)

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
