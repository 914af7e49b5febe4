# Tests: evaluation/load.py
"""What studies/sgs.py says of its runs, on runs whose numbers are written here."""

import json

import numpy as np
import pytest
import sgs_study
from tests.made_up_runs import write_lines


def write_arm(root, arm, seeds, top, entropy):
    """20 rounds of 100 generations, of which the first 4 attempt the targets for the first time; of 40 targets `top` +
    seed are solved at the end, the first ones first."""
    for seed in range(seeds):
        folder = root / arm / f"seed-{seed}"
        folder.mkdir(parents=True)
        (folder / "run.json").write_text(json.dumps({"config": {"seed": seed}}))
        count = top + seed
        first = {f"t{i:02}": None if i >= count else 1 + i * 20 // count for i in range(40)}
        rows = []
        for at in range(1, 21):
            rate = sum(r is not None and r <= at for r in first.values()) / 40
            rows.append({
                "step": at, "round/generations": 100 * at, "targets/solve_rate": rate,
                "round/cumulative_solve_rate": rate, "prover/sampled_entropy": 1.0 if at <= 5 else entropy,
                "targets/attempted": min(at / 4, 1.0),
            })  # fmt: skip
        write_lines(folder / "metrics.jsonl", rows)
        (folder / "first_solved.json").write_text(json.dumps({"rounds": 20, "first_solved": first}))


def line(text, says):
    (found,) = [line for line in text.splitlines() if says in line]
    return found


def test_the_table_and_the_claims_are_those_of_the_numbers(tmp_path):
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
    assert "0.775, 0.525 | +0.250 [+0.162, +0.338] | reproduced" in line(text, "SGS passes the baseline |")
    # seeds 1 and 2 of the baseline leave t22 to t39, 0 and 2 too, 0 and 1 also t21, which seed 2 solves: 0, 0, 1 of
    # 19; sgs 8 of 18, 9 of 18, 11 of 19. .4444, .5, .5263: sd .0418, half-width 4.303 * .0418 / sqrt(3) = .1039
    assert found["arms"]["reinforce_half"]["held_out"] == pytest.approx([0, 0, 1 / 19])
    assert "0.508, 0.018 | +0.490 [+0.386, +0.594] | reproduced" in line(text, "SGS solves what the baseline leaves")
    assert line(text, "SGS passes the baseline's asymptote") and line(text, "a higher asymptote than the baseline")
    assert "share left: 0.800, 0.200" in text and "SGS passes STP" not in text
    assert found["after_equal_rounds"]["rounds"] == 20
    assert found["after_equal_rounds"]["sgs"] == [30 / 40, 31 / 40, 32 / 40]
    # all targets were attempted in the 4th round of 100 generations
    assert found["arms"]["sgs"]["fitted_from"] == [400.0] * 3 and "after 400 to 400 generations" in text


def test_held_out_pairs_runs_with_sets_that_leave_their_own_run_out():
    """Of a, b, c and d: what run i of an arm solved of what the baseline's other runs left."""
    base = [{"a": 1, "b": None, "c": None}, {"a": 1, "b": 2, "c": None}, {"a": 1, "b": None, "c": None}]
    # without run 0 b is solved: {c}; without run 1 {b, c}; without run 2 {c}
    assert sgs_study.held_out(base, base) == [0, 0.5, 0]
    own = [{"a": None, "b": 1, "c": 1}, {"a": 1, "b": None, "c": 3}]  # two runs for three of the baseline
    assert sgs_study.held_out(own, base) == [1, 0.5]
    assert sgs_study.held_out([*own, *own], base) == [1, 0.5, 1]  # a fourth run has no set
    assert sgs_study.held_out(own, base[:1]) == []  # nothing to leave out
    # the baseline's other run solves all: nothing is left, and a run without its file solved nothing
    everything = [{"a": 1, "b": 1}, {"a": 1, "b": None}]
    shares = sgs_study.held_out([{"a": 1, "b": None}, {}], everything)
    assert shares[0] == 0 and np.isnan(shares[1])
    assert "two seeds at least that leave something" in sgs_study.beyond_baseline(shares, [0, float("nan")])


@pytest.mark.parametrize(
    ("low", "high", "kind", "verdict"),
    [
        (0.1, 0.2, "more", "reproduced"), (-0.2, -0.1, "more", "refuted"),
        (-0.1, 0.1, "more", "open: the interval holds 0"),
        # a wide interval around 0 shows no equality, a narrow one beside 0 does; beyond the margin is another value
        (-0.1, 0.1, "equal", "open: the interval leaves ±0.03"),
        (-0.02, 0.01, "equal", "reproduced: equal to within 0.03"),
        (0.01, 0.02, "equal", "reproduced: equal to within 0.03"),
        (0.01, 0.05, "equal", "open: the interval leaves ±0.03"),
        (0.1, 0.2, "equal", "refuted"), (-0.2, -0.1, "equal", "refuted"),
        # being worse is no better
        (-0.2, -0.1, "no_more", "reproduced: no better by 0.03"),
        (-0.1, 0.02, "no_more", "reproduced: no better by 0.03"),
        (-0.1, 0.1, "no_more", "open: the interval passes 0.03"), (0.01, 0.1, "no_more", "refuted"),
    ],
)  # fmt: skip
def test_a_claim_is_judged_by_its_interval(low, high, kind, verdict):
    claim = sgs_study.Claim("x", "y", np.mean, "a", "b", kind)
    assert claim.verdict(low, high) == verdict
