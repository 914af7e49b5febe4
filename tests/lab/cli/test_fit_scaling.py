# Tests: lab/cli/fit_scaling.py, lab/scaling.py, lab/scaling_fit.py
"""`countdown-selfplay fit-scaling` on tables and run folders with known curves."""

import json
from xml.etree import ElementTree

import numpy as np
import pytest
from tests.made_up_runs import printed, write_lines

from countdown_selfplay.evaluation import ScalingFit

FEW = ["--resamples", "10"]


def fit(capsys, *arguments):
    return printed(capsys, "fit-scaling", *arguments)


def write_curve(path, asymptote=0.62, columns=("compute", "rate")):
    """FACTS: C_mid = 8e5, B = .9, R0 = .05."""
    compute = np.concatenate([[0.0], np.geomspace(1e4, 1e8, 25)])
    rate = ScalingFit(asymptote, 8e5, 0.9, 0.05, True)(compute)
    rows = [dict(zip(columns, row, strict=True)) for row in zip(compute.tolist(), rate.tolist(), strict=True)]
    if path.suffix == ".csv":
        path.write_text(",".join(columns) + "\n" + "".join(f"{r[columns[0]]},{r[columns[1]]}\n" for r in rows))
    else:
        write_lines(path, rows)
    return path


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_a_known_curve_is_found_in_a_table(tmp_path, capsys, name):
    code, out, _ = fit(capsys, write_curve(tmp_path / name), *FEW, "--output", tmp_path / "s")
    assert code == 0
    (found,) = json.loads((tmp_path / "s" / "scaling.json").read_text())["fits"]
    expected = {"asymptote": 0.62, "c_mid": 8e5, "slope": 0.9, "initial": 0.05}
    assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-3)
    assert "0.6200" in out and "rate against compute" in out
    assert ElementTree.parse(tmp_path / "s" / "scaling.svg").getroot().tag.endswith("svg")
    assert (tmp_path / "s" / "scaling.md").read_text().startswith("| arm | points |")


def test_both_forms_are_reported_where_the_recentred_one_is_asked_for(tmp_path, capsys):
    # the curve from 1e5 on is no sigmoid of the same midpoint any more, so the two forms differ
    where = write_curve(tmp_path / "a.csv")
    _, out, _ = fit(capsys, where, *FEW, "--drop_below", "1e5", "--recenter", "--output", tmp_path / "s")
    fits = json.loads((tmp_path / "s" / "scaling.json").read_text())["fits"]
    assert [one["name"] for one in fits] == ["a.csv", "a.csv (re-centred)"] and "(re-centred)" in out
    assert fits[0]["initial"] == pytest.approx(0.05) and fits[1]["initial"] > 0.1  # R(1e5) = .126


def test_seeds_are_pooled_and_one_cumulative_curve_gets_no_interval_and_is_told_why(tmp_path, capsys):
    for i in range(2):
        write_curve(tmp_path / f"a-{i}.csv", columns=("tokens", "solved"))
        write_curve(tmp_path / f"b-{i}.csv", 0.4, columns=("tokens", "solved"))
    arms = [f"a={tmp_path}/a-*.csv", f"b={tmp_path}/b-*.csv", "--compute", "tokens", "--rate", "solved"]
    code, out, _ = fit(capsys, *arms, *FEW)
    assert code == 0
    assert [line.split()[:3] for line in out.splitlines()[2:4]] == [["a", "52", "0.6200"], ["b", "52", "0.4000"]]
    assert "2 runs" in out
    paths = [write_curve(tmp_path / f"{name}.csv", top) for name, top in (("a", 0.62), ("b", 0.4))]
    code, out, _ = fit(capsys, *paths, *FEW, "--output", tmp_path / "s")
    assert code == 0 and "a.csv: no interval from one cumulative curve" in out and "give several runs" in out
    found = json.loads((tmp_path / "s" / "scaling.json").read_text())
    assert [one["interval"] for one in found["fits"]] == [None, None]


def test_a_failed_fit_is_exit_code_1_and_has_no_number(tmp_path, capsys):
    (tmp_path / "line.csv").write_text("compute,rate\n" + "".join(f"{c},{c / 100}\n" for c in range(1, 30)))
    code, out, _ = fit(capsys, tmp_path / "line.csv", *FEW, "--output", tmp_path / "s")
    assert code == 1 and "line.csv: the fit failed. The best fit lies on a bound" in out
    assert out.splitlines()[2].split()[:3] == ["line.csv", "29", "failed"]
    assert json.loads((tmp_path / "s" / "scaling.json").read_text())["fits"][0]["asymptote"] is None


def test_a_run_counts_its_texts_and_its_evaluations_give_the_rate(tmp_path, capsys):
    # 32 problems x 8 answers and 32 proposals = 288 a round; evaluated every 1,000 rounds.
    run = tmp_path / "run"
    run.mkdir()
    config = {"problems_per_round": 32, "num_generations": 8, "proposals_per_round": 32}
    (run / "run.json").write_text(json.dumps({"config": config}))
    truth = ScalingFit(0.62, 8e5, 0.9, 0.05, True)
    steps = [0, *np.geomspace(30, 3e5, 25).astype(int).tolist()]
    rows = [{"step": s, "eval_pass@1": float(truth(s * 288.0))} for s in steps] + [{"step": 5, "loss": 0.1}]
    write_lines(run / "metrics.jsonl", rows)
    code, out, _ = fit(capsys, run, *FEW, "--output", tmp_path / "s")
    assert code == 0 and "eval_pass@1 against generations" in out
    (found,) = json.loads((tmp_path / "s" / "scaling.json").read_text())["fits"]
    assert (found["asymptote"], found["c_mid"]) == pytest.approx((0.62, 8e5), rel=1e-3)
    code, _, err = fit(capsys, run, "--compute", "tokens")
    assert code == 2 and "has no column 'tokens'; it has step, eval_pass@1, loss" in err
