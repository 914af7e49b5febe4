"""What examples/sgs.py says of its runs, on runs whose numbers are written here."""

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from countdown_selfplay.evaluation.report import load_run
from countdown_selfplay.statistics.bootstrap import Estimate

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


@pytest.fixture(scope="module")
def sgs_study():
    sys.path.insert(0, str(EXAMPLES))
    try:
        yield importlib.import_module("sgs_study")
    finally:
        sys.path.remove(str(EXAMPLES))
        sys.modules.pop("sgs_study", None)


def write_arm(root, arm, seeds, top, entropy):
    """20 rounds of 100 generations; of 40 targets `top` + seed are solved at the end, the first ones first."""
    for seed in range(seeds):
        folder = root / arm / f"seed-{seed}"
        folder.mkdir(parents=True)
        (folder / "run.json").write_text(json.dumps({"config": {"seed": seed, "steps_per_round": 2}}))
        count = top + seed
        first = {f"t{i:02}": None if i >= count else 1 + i * 20 // count for i in range(40)}
        rows = []
        for at in range(1, 21):
            rate = sum(r is not None and r <= at for r in first.values()) / 40
            rows.append({
                "step": 2 * at, "round/generations": 100 * at, "targets/solve_rate": rate,
                "round/cumulative_solve_rate": rate, "prover/entropy": 1.0 if at <= 5 else entropy,
            })  # fmt: skip
        (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (folder / "first_solved.json").write_text(json.dumps({"rounds": 20, "first_solved": first}))


def test_the_table_and_the_claims_are_those_of_the_numbers(sgs_study, tmp_path):
    write_arm(tmp_path, "sgs", 3, 30, 0.9)
    write_arm(tmp_path, "reinforce_half", 3, 20, 0.8)
    write_arm(tmp_path, "cispo_alone", 3, 10, 0.2)
    seeds = {arm: [0, 1, 2] for arm in ("sgs", "reinforce_half", "cispo_alone")}
    text = sgs_study.study(tmp_path, list(seeds), seeds, 2000)
    found = json.loads((tmp_path / "study.json").read_text())
    # 31, 21 and 11 of 40 in the mean; the baseline's three runs solve t00 to t21, so 18 are hard, of which sgs solves
    # t22 to t29 (8), t30 and t31: 8, 9 and 10
    assert [found["arms"][arm]["solve_rate"] for arm in seeds] == pytest.approx([31 / 40, 21 / 40, 11 / 40])
    assert len(found["D_hard"]) == 18 and found["arms"]["sgs"]["of_D_hard"] == pytest.approx(9 / 18)
    assert found["arms"]["reinforce_half"]["of_D_hard"] == 0
    assert found["arms"]["cispo_alone"]["entropy"] == pytest.approx([1.0, 0.2])
    # sgs - baseline: 10 of 40; t intervals of 30, 31, 32 over 40: sd 1 / 40, half-width 4.303 / 40 / sqrt(3) = .0621,
    # and sqrt(2) times that of the difference: .0878
    row = next(line for line in text.splitlines() if "SGS passes the baseline" in line)
    assert "0.775, 0.525 | +0.250 [+0.162, +0.338] | reproduced" in row
    assert "SGS passes the baseline's asymptote" in text
    assert "share left: 0.800, 0.200" in text and "SGS passes STP" not in text
    assert "Re-centred: without the first 50 generations" in text


@pytest.mark.parametrize(
    ("interval", "told"),
    [
        # 30, 31 and 32 of 40 are .775 with a half-width of .0621 (above); sqrt(.0621^2 + .05^2) = .0797
        (Estimate(0.6, 0.55, 0.65), "0.775, 0.600 | +0.175 [+0.095, +0.255] | reproduced"),
        (Estimate(0.9, 0.85, 0.95), "0.775, 0.900 | -0.125 [-0.205, -0.045] | refuted"),
        (Estimate(0.6, 0.2, 1.0), "0.775, 0.600 | +0.175 [-0.230, +0.580] | open: the interval holds 0"),
        (None, "solved, asymptote | – | open: it takes two seeds and a fit with an interval"),
    ],
)
def test_the_baselines_asymptote_is_a_claim_of_its_own(sgs_study, tmp_path, interval, told):
    write_arm(tmp_path, "sgs", 3, 30, 0.9)
    runs = [load_run(tmp_path / "sgs" / f"seed-{seed}") for seed in range(3)]
    baseline = sgs_study.ScalingArm("reinforce_half", None, [], interval, "", 0.0, np.zeros(0))
    assert told in sgs_study.beyond_asymptote(runs, baseline)


@pytest.mark.parametrize(
    ("low", "high", "equal", "verdict"),
    [(0.1, 0.2, False, "reproduced"), (-0.2, -0.1, False, "refuted"), (-0.1, 0.1, False, "open: the interval holds 0"),
     (-0.1, 0.1, True, "no difference seen"), (0.1, 0.2, True, "refuted")],
)  # fmt: skip
def test_a_claim_is_judged_by_its_interval(sgs_study, low, high, equal, verdict):
    claim = sgs_study.Claim("x", "y", np.mean, "a", "b", equal)
    assert claim.verdict(low, high) == verdict
