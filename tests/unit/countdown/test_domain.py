# Tests: countdown/domain.py, countdown/proposals.py
"""The domain as a game sees it."""

import pickle

from countdown_selfplay.countdown import (
    CountdownDomain,
    Problem,
    ProposalReason,
    Rules,
)


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
