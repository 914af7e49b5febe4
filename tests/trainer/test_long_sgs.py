# Tests: proposers/targets.py
"""200 rounds of self-guided self-play on targets none of which gets solved (benchmarks/sgs_rounds.py)."""

import importlib
import sys
from pathlib import Path

import pytest

from countdown_selfplay.countdown.helping import HELP_PROMPTS

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
ROUNDS = 200


@pytest.fixture(scope="module")
def bench():
    sys.path.insert(0, str(BENCHMARKS))
    try:
        yield importlib.import_module("sgs_rounds")
    finally:
        sys.path.remove(str(BENCHMARKS))
        for name in ("sgs_rounds", "flatness", "results", "contenders", "pacing"):
            sys.modules.pop(name, None)


@pytest.mark.nightly
def test_memory_stays_flat_and_adam_keeps_its_state(bench, tmp_path, monkeypatch):
    # The embedded model was never shown `propose like ...`; what it knows stands in for it.
    monkeypatch.setitem(HELP_PROMPTS, "compact", lambda target, spec: "propose 3 :")
    changes = dict(logging_steps=10, operands=[2, 3, 4])
    trainer, watch = bench.build(str(tmp_path / "run"), ROUNDS, 12, 6, **changes)
    trainer.train()
    found = bench.measured(trainer, watch)
    assert found["rounds"] == ROUNDS and found["solved"] == 0 and len(watch.memory) == ROUNDS
    proposer = trainer.game.proposer
    # every target was played in every other round, and all of these are remembered
    assert {len(marks) for marks in proposer.history.values()} == {ROUNDS // 2}
    assert found["memory_slope_mib_per_round"] < 0.05, watch.memory[::20]
    # Adam: one count from the first step to the last, in each round up by two steps at most
    gained = [b["prover"] - a["prover"] for a, b in zip(watch.adam, watch.adam[1:], strict=False)]
    assert found["adam_never_reset"] and set(gained) <= {0.0, 1.0, 2.0} and found["adam_steps"]["prover"] > 10
    assert found["generations"] == sum(trainer.frame.samples.values()) >= ROUNDS * 6 * 4
