# Tests: countdown/domain.py, countdown/proposals.py
"""The domain as a game sees it."""

import pickle

from countdown_selfplay.countdown import (
    CountdownDomain,
    Problem,
    ProblemSpec,
    ProposalReason,
    Reason,
    Rules,
    is_solvable,
)


def test_the_tiny_domain_speaks_the_compact_formats_and_the_public_one_chat_and_completion():
    domain = CountdownDomain.tiny()
    assert domain.propose_row(3) == {"prompt": "propose 3 :", "operands": 3}
    proposal = domain.parse(["3 5 7 = 22"])[0]
    assert proposal.problem is not None and domain.in_range(proposal.problem) and is_solvable(proposal.problem)
    assert domain.prove_row(proposal.problem) == {"prompt": "3 5 7 = 22 :", "numbers": [3, 5, 7], "target": 22}
    assert domain.verify(["3 * 5 + 7"], [proposal.problem])[0].reason is Reason.CORRECT
    assert domain.verify(["<answer>3 * 5 + 7</answer>"], [proposal.problem])[0].score == 0.0
    assert domain.stop_strings("conjecturer") is None
    assert not domain.in_range(Problem((3, 5, 13), 22)) and not domain.in_range(Problem((3, 5), 15))
    domain = CountdownDomain.countdown_3to4()
    assert domain.rules.answer_format == "tags" and domain.spec == ProblemSpec()
    assert [m["role"] for m in domain.prove_row(Problem((44, 19, 35), 98))["prompt"]] == ["system", "user"]
    assert domain.propose_row(4)["prompt"].endswith("<problem> numbers=[")
    assert domain.stop_strings("conjecturer") == domain.stop_strings("conjecturer/1") == ["</problem>"]
    assert domain.stop_strings("prover") is None
    assert domain.key(Problem((44, 19, 35), 98)) == "19,35,44=98"


def test_every_prompt_has_a_parser_the_solver_follows_the_rules_and_a_domain_can_be_sent():
    for style in ("json", "completion"):
        domain = CountdownDomain(conjecturer_prompt=style)
        assert domain.example_keys
        prompt = domain.propose_row(3)["prompt"]
        text = prompt if isinstance(prompt, str) else prompt[-1]["content"]
        line = next(line for line in text.split("\n") if "19" in line or "24" in line)
        assert domain.parse([line.removeprefix("Example: ")])[0].reason is ProposalReason.COPIED_EXAMPLE
    p = Problem((3, 3, 8, 8), 24)
    assert CountdownDomain().check([p])[0].facts["solvable"]
    strict = CountdownDomain(rules=Rules(integers_only=True))
    checked = strict.check([p, Problem((1, 2, 3, 4), 24)])
    assert [one.facts["solvable"] for one in checked] == [False, True]
    domain = CountdownDomain.tiny()
    _ = CountdownDomain().example_keys  # cached
    assert pickle.loads(pickle.dumps(domain)) == domain
    assert pickle.loads(pickle.dumps(CountdownDomain())) == CountdownDomain()
