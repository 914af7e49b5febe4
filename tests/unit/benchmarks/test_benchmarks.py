# Tests: benchmarks/throughput.py, benchmarks/progress_cost.py, benchmarks/gpu_hour.py, benchmarks/regression.py
"""The arithmetic of the simulated scaling by hand, a quick run, the jobs of a GPU hour, and how ratios are judged."""

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def bench():
    """Import a module of benchmarks/, which import each other by their bare names."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        yield import_module
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))
        for path in (ROOT / "benchmarks").glob("*.py"):
            sys.modules.pop(path.stem, None)


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
    command = [sys.executable, str(ROOT / "benchmarks" / "throughput.py"), "--output", str(tmp_path / "found.json")]
    command += ["--quick", "--contenders", "single", "trl_rloo"]
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


@pytest.mark.parametrize("quick", [False, True])
def test_every_job_of_the_gpu_hour_is_a_command_that_its_script_accepts(bench, quick):
    jobs = bench("gpu_hour").jobs(quick, tokenizer=None if quick else "FOLDER", flash=True)
    assert len({job.name for job in jobs}) == len(jobs)
    for job in jobs:
        options = bench(job.script).parser().parse_args([*job.flags, "--output", "found.json"])
        assert options.output == Path("found.json") and 0 < job.minutes <= 9
        if job.script == "throughput" and not quick:
            assert bench("throughput").refusal(options, gpu=True) is None
            assert options.steps == (1 if options.operators else 12)  # an interval of 12 values
        if job.script == "memory":  # a part of a name, and an unknown one would measure nothing
            assert any(options.only in cell for cell in bench("memory").CELLS)


def test_what_a_job_has_started_ends_with_it(bench, tmp_path, monkeypatch):
    """Its own children would keep their GPU memory. One holds a pipe open, in which it would write after 9 seconds."""
    os.mkfifo(tmp_path / "pipe")
    alive = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    lasting = "import os, sys, time; time.sleep(9); os.write(int(sys.argv[1]), b'alive')"
    (tmp_path / "job.py").write_text(
        f"import os, subprocess, sys\nheld = os.open({str(tmp_path / 'pipe')!r}, os.O_WRONLY)\n"
        f"subprocess.Popen([sys.executable, '-c', {lasting!r}, str(held)], pass_fds=[held])\n"
    )
    gpu_hour = bench("gpu_hour")
    monkeypatch.setattr(gpu_hour, "HERE", tmp_path)
    gpu_hour.run(gpu_hour.Job("job", "job", (), 1), tmp_path)
    os.set_blocking(alive, True)
    assert os.read(alive, 5) == b""
    os.close(alive)


@pytest.mark.matrix
def test_a_job_that_fails_says_its_last_line_and_leaves_no_file(bench, tmp_path):
    gpu_hour = bench("gpu_hour")
    job = gpu_hour.Job("wrong", "train_only", ("--model", "no-such-model"), 1)
    assert "invalid choice: 'no-such-model'" in gpu_hour.run(job, tmp_path)
    assert not (tmp_path / "wrong.json").exists() and (tmp_path / "wrong.log").exists()
    absent = gpu_hour.Job("absent", "train_only", (), 1, needs="no_such_package")
    assert gpu_hour.run(absent, tmp_path) == "left out: no_such_package is not installed"


@pytest.mark.parametrize(("up", "now", "expected"), [
    (True, [1.2, 1.3], "worse"),
    (False, [1.2, 1.3], "better"),
    (True, [1.7, 1.9], "better"),
    (False, [1.7, 1.9], "worse"),
    (True, [1.3, 1.5], "same"),  # the intervals meet at 1.5
    (False, [1.0, 2.0], "same"),
])  # fmt: skip
def test_a_ratio_is_worse_if_its_interval_does_not_meet_the_stored_one(bench, up, now, expected):
    """The stored interval is [1.5, 1.6]."""
    regression = bench("regression")
    row = regression.Row("r", "c", (), up)
    assert regression.verdict(row, {"interval": [1.5, 1.6]}, {"interval": now}) == expected
    assert regression.verdict(row, None, {"interval": now}) == "new"
