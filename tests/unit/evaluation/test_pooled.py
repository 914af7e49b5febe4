# Tests: evaluation/roles.py
"""Several provers as one."""

from collections import Counter
from dataclasses import replace

import pytest

from countdown_selfplay.evaluation.roles import ProverEvaluation, pooled
from countdown_selfplay.statistics.bootstrap import Estimate


def one(correct, score, truncated):
    return ProverEvaluation(
        n=4, pass_at={}, score=Estimate(score, score - 0.1, score + 0.1), truncated_rate=truncated,
        several_answers_rate=0.0, reasons=Counter(ok=sum(correct)), seconds=1.0, setting={}, correct=correct,
        keys=[str(i) for i in range(len(correct))],
    )  # fmt: skip


def test_all_answers_to_a_problem_are_put_together_and_settings_that_differ_told():
    found = pooled([one([4, 0, 1], 0.4, 0.0), one([0, 0, 3], 0.6, 0.5)], ks=(1, 8))
    assert (found.correct, found.n, found.truncated_rate, found.seconds) == ([4, 0, 4], 8, 0.25, 2.0)
    # pass@1: (4 + 0 + 4) / 8 / 3; pass@8: two of three problems have a right answer among the eight
    assert found.pass_at[1].value == pytest.approx(1 / 3) and found.pass_at[8].value == pytest.approx(2 / 3)
    assert (found.score.value, found.score.low) == (pytest.approx(0.5), pytest.approx(0.4))
    assert found.reasons == {"ok": 8}
    # Wilson's for 0 of 3 problems: 3.841459 / 6.841459 = .561497.
    found = pooled([one([0, 0, 0], 0.0, 0.0)] * 2, ks=(1, 8))
    assert [found.pass_at[k].high for k in (1, 8)] == pytest.approx([0.561497] * 2, abs=1e-6)
    alone = one([1, 2], 0.3, 0.0)
    assert pooled([alone], ks=(1,)) is alone
    settings = [{"temperature": t, "top_p": 1.0, "seed": seed} for t, seed in ((0.8, 0), (1.2, 7))]
    each = [replace(one([1], 0.3, 0.0), setting=setting) for setting in settings]
    assert pooled(each).setting == {"temperature": [0.8, 1.2], "top_p": 1.0, "seed": 0}
