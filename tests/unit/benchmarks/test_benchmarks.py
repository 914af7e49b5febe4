# Tests: benchmarks/throughput.py, benchmarks/progress_cost.py
"""The arithmetic of benchmarks/simulate_scaling.py by hand, and one quick run of benchmarks/throughput.py."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def simulator(bench):
    return bench("simulate_scaling")


def test_two_processes_wait_for_the_slower_one_in_each_segment_and_then_for_the_network(simulator):
    """Sampling 1 and 3 s, update 2 and 2 s, the rest of the round 0.5 and 0 s: 3 + 2 + 0.5; an all-reduce of 600 bytes
    between 0.1 s at 400 and 0.3 s at 800 is 0.2 s; two gathers at 0.1 s and three of objects at 0.01 s."""
    alone = [
        [{"wall": 3.5, "phases": {"generate": 1.0, "backward": 1.5, "forward": 0.5}}],
        [{"wall": 5.0, "phases": {"generate": 3.0, "backward": 2.0}}],
    ]
    communication = {"all_reduce": {"400": 0.1, "800": 0.3}, "gather_object": 0.01}
    calls = {"gather": 2, "gather_object": 3}
    assert simulator.predicted_round(alone, communication, 600, calls) == pytest.approx(5.5 + 0.2 + 0.2 + 0.03)
    reduced = {**calls, "reduce": 4}  # a reduce of a few metrics takes the time of the smallest all-reduce
    assert simulator.predicted_round(alone, communication, 600, reduced) == pytest.approx(5.93 + 0.4)
    known = [(4.0, 1.0), (8.0, 2.0), (16.0, 3.0)]
    assert [simulator.interpolated(known, size) for size in (6, 16, 24)] == [1.5, 3.0, 4.0]


def test_the_tables_of_the_page_are_those_that_the_simulator_prints(simulator):
    page = (ROOT / "docs" / "scaling.md").read_text()
    e, r, host = simulator.Efficiency(), simulator.Round(), simulator.measured_host()
    found = simulator.tables(simulator.GPUS["h100"], e, r, host)
    assert set(found) == {"round", "cost", "engine", "server", "check"}
    assert all(f"<!-- table:{name} -->" in page for name in found)
    assert simulator.updated(page, found) == page


@pytest.mark.matrix
def test_the_throughput_benchmark_runs_and_its_ratios_are_those_of_its_steps(tmp_path):
    command = [
        sys.executable, str(ROOT / "benchmarks" / "throughput.py"), "--quick", "--contenders", "single", "trl_rloo",
    ]  # fmt: skip
    command += ["--output", str(tmp_path / "found.json")]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads((tmp_path / "found.json").read_text())
    ours, stock = (found["steps"][name] for name in ("single", "trl_rloo"))
    assert len(ours) == len(stock) == 2
    ratios = sorted(b["cpu"] / a["cpu"] for a, b in zip(ours, stock, strict=True))
    spread = found["ratios"]["cpu"]["single / trl_rloo (samples/s)"]
    assert [spread["min"], spread["max"]] == pytest.approx(ratios)
    for name, record in (("single", ours), ("trl_rloo", stock)):
        assert found["contenders"][name]["samples"] == 8
        for step in record:
            assert 0 < sum(step["phases_cpu"].values()) <= step["cpu"] and step["completion_tokens"] <= 8 * 8
    assert all("log-probs" in step["phases_cpu"] for step in stock)  # TRL's second pass, which ours leaves out
    assert not any("log-probs" in step["phases_cpu"] for step in ours)
    assert "samples/s" in done.stdout
