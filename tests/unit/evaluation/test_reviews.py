# Tests: evaluation/roles.py
"""How well a guide reviews, on reviews that are written here."""

import pytest

from countdown_selfplay.countdown import CountdownDomain, Problem, ProblemSpec, Rules
from countdown_selfplay.countdown.guide import Review
from countdown_selfplay.countdown.rows import ROW_SCHEMAS
from countdown_selfplay.evaluation import roles

TINY = CountdownDomain(ProblemSpec((2, 3), 1, 12, 1, 99), Rules(answer_format="bare"), "compact", "compact")
TARGETS = [Problem((3, 5, 7), 22), Problem((2, 4, 9), 26), Problem((6, 7, 8), 50), Problem((1, 2, 3), 6)]


def test_reviews_are_counted_that_can_be_read_and_that_score_as_the_rubric(monkeypatch):
    """Of four: the rubric's own review, one with another score, one off the scale, and no review at all."""
    rows = [ROW_SCHEMAS["reviewed"](target, TINY) for target in TARGETS]
    own = TINY.helping.read_review(rows[1]["completion"])
    other = next(r for r in range(6) if Review(r, own.redundancy, 0).score != own.score)
    texts = [rows[0]["completion"], f"{other} {own.redundancy} 0", "6 0 0", "propose 3 :"]
    asked = []

    def sampled(model, tokenizer, prompts, n, **sampling):
        asked.extend(prompts)
        return [[text] for text in texts], [[False]] * len(texts)

    monkeypatch.setattr(roles, "sample_texts", sampled)
    found = roles.evaluate_guide(None, None, TARGETS, TINY)
    assert asked == [row["prompt"] for row in rows] and found["n"] == 4
    assert (found["readable"]["value"], found["as the rubric"]["value"]) == (0.5, 0.25)
    # Wilson's interval of 2 of 4: (2 + 1.9208 +- 1.96 sqrt(1 + .9604)) / 7.8415 = .1500, .8500
    assert found["readable"]["low"] == pytest.approx(0.15, abs=1e-3)
