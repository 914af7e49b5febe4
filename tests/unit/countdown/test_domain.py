# Tests: countdown/domain.py, countdown/proposals.py
"""The domain as a game sees it."""

import pickle

import pytest

from countdown_selfplay.countdown import (
    CountdownDomain,
    Problem,
    ProblemSpec,
    ProposalReason,
    Reason,
    Rules,
    is_solvable,
)


def test_the_tiny_domain_speaks_the_compact_formats():
    domain = CountdownDomain.tiny()
    assert domain.propose_row(3) == {"prompt": "propose 3 :", "operands": 3}
    proposal = domain.parse(["3 5 7 = 22"])[0]
    assert proposal.problem is not None and domain.in_range(proposal.problem) and is_solvable(proposal.problem)
    assert domain.prove_row(proposal.problem) == {"prompt": "3 5 7 = 22 :", "numbers": [3, 5, 7], "target": 22}
    assert domain.verify(["3 * 5 + 7"], [proposal.problem])[0].reason is Reason.CORRECT
    assert domain.verify(["<answer>3 * 5 + 7</answer>"], [proposal.problem])[0].score == 0.0
    assert domain.stop_strings("conjecturer") is None
    assert not domain.in_range(Problem((3, 5, 13), 22)) and not domain.in_range(Problem((3, 5), 15))


def test_the_public_domain_speaks_chat_and_completion():
    domain = CountdownDomain.countdown_3to4()
    assert domain.rules.answer_format == "tags" and domain.spec == ProblemSpec()
    assert [m["role"] for m in domain.prove_row(Problem((44, 19, 35), 98))["prompt"]] == ["system", "user"]
    assert domain.propose_row(4)["prompt"].endswith("<problem> numbers=[")
    assert domain.stop_strings("conjecturer") == domain.stop_strings("conjecturer/1") == ["</problem>"]
    assert domain.stop_strings("prover") is None
    assert domain.key(Problem((44, 19, 35), 98)) == "19,35,44=98"


@pytest.mark.parametrize("operands", [3, 4])
def test_a_copy_of_a_shot_is_refused(operands):
    domain = CountdownDomain.countdown_3to4()
    shot = domain.propose_row(operands)["prompt"].split("\n")[3]
    assert domain.parse([shot])[0].reason is ProposalReason.COPIED_EXAMPLE
    assert domain.parse([shot.replace("target=", "target=1")])[0].reason is ProposalReason.OK


def test_every_prompt_has_a_parser_that_reads_its_own_examples():
    for style in ("json", "completion"):
        domain = CountdownDomain(conjecturer_prompt=style)
        assert domain.example_keys
        prompt = domain.propose_row(3)["prompt"]
        text = prompt if isinstance(prompt, str) else prompt[-1]["content"]
        line = next(line for line in text.split("\n") if "19" in line or "24" in line)
        assert domain.parse([line.removeprefix("Example: ")])[0].reason is ProposalReason.COPIED_EXAMPLE


def test_the_solver_follows_the_rules():
    p = Problem((3, 3, 8, 8), 24)
    assert CountdownDomain().check([p])[0].facts["solvable"]
    strict = CountdownDomain(rules=Rules(integers_only=True))
    checked = strict.check([p, Problem((1, 2, 3, 4), 24)])
    assert [one.facts["solvable"] for one in checked] == [False, True]


def test_it_can_be_sent_to_another_process_and_compared():
    domain = CountdownDomain.tiny()
    _ = CountdownDomain().example_keys  # cached
    assert pickle.loads(pickle.dumps(domain)) == domain
    assert pickle.loads(pickle.dumps(CountdownDomain())) == CountdownDomain()
