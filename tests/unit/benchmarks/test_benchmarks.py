# Tests: benchmarks/throughput.py, benchmarks/progress_cost.py
"""The arithmetic of benchmarks/simulate_scaling.py by hand, and one quick run of benchmarks/throughput.py."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def simulator():
    spec = importlib.util.spec_from_file_location("simulate_scaling", ROOT / "benchmarks" / "simulate_scaling.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["simulate_scaling"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["simulate_scaling"]


def test_an_all_reduce_goes_around_the_node_and_then_between_nodes(simulator):
    """10^9 bytes, links 450 and 50 GB/s at 0.7: 8 GPUs 2 x 7/8 / 315 = 5.5556 ms and 2 x 3 x 20 us; 16 GPUs on two
    nodes as well 2 x 1/2 x (1/8) / 35 = 3.5714 ms, and 2 x 4 x 20 us."""
    gpu, e = simulator.GPUS["h100"], simulator.Efficiency()
    assert simulator.all_reduce(1e9, 1, gpu, e) == 0.0
    assert simulator.all_reduce(1e9, 8, gpu, e) == pytest.approx(5.5556e-3 + 1.2e-4, rel=1e-4)
    assert simulator.all_reduce(1e9, 16, gpu, e) == pytest.approx(5.5556e-3 + 3.5714e-3 + 1.6e-4, rel=1e-4)


def test_decoding_few_rows_is_bound_by_memory_and_many_by_arithmetic(simulator):
    """10^9 parameters in bf16: 2 GB at 0.7 x 3,350 GB/s are 0.85288 ms; 10^4 rows x 2 x 10^9 operations at 0.4 x 989
    TFLOPS are 50.556 ms; vLLM adds 4 ms a step."""
    gpu, e = simulator.GPUS["h100"], simulator.Efficiency()
    model = simulator.Model("m", 1e9, 10, 0, 64)  # no cache
    assert simulator.decode(model, 1, 100, 50, gpu, e, "vllm") == pytest.approx(100 * (0.85288e-3 + 4e-3), rel=1e-4)
    assert simulator.decode(model, 1e4, 1, 50, gpu, e, "vllm") == pytest.approx(50.556e-3 + 4e-3, rel=1e-4)
    # `generate`: float32 weights, 1 ms for each of 10 layers
    assert simulator.decode(model, 1, 1, 50, gpu, e, "hf") == pytest.approx(2 * 0.85288e-3 + 10e-3, rel=1e-4)


def test_weights_are_replicated_where_they_fit_and_sharded_where_they_do_not(simulator):
    """Two roles x 16 bytes a parameter and a copy in bf16, in 0.8 x 80 GB: 1.8e9 parameters take 61.2 GB, 2e9 take 68.
    A copy of 33e9 parameters (66 GB) is split over 4 GPUs (0.4 x 80 = 32 GB each at most)."""
    gpu = simulator.GPUS["h100"]
    sizes = [simulator.Model("m", n, 30, 2, 64) for n in (1.8e9, 2e9, 33e9)]
    assert [simulator.strategy(m, 1, gpu, "vllm") for m in sizes] == ["ddp", None, None]
    assert [simulator.strategy(m, 8, gpu, "vllm") for m in sizes] == ["ddp", "sharded", None]
    assert simulator.strategy(sizes[2], 64, gpu, "vllm") == "sharded"
    assert [simulator.split(m, gpu) for m in sizes] == [1, 1, 4]


def test_the_parts_of_a_round_add_up_and_more_gpus_never_cost_less_per_sample(simulator):
    gpu, e, r = simulator.GPUS["h100"], simulator.Efficiency(), simulator.Round()
    host, model = simulator.Host(own=1e-4, shared=1e-5), simulator.MODELS["Qwen2.5-0.5B"]
    found = [simulator.simulate(model, n, gpu, e, r, host) for n in (1, 8, 64)]
    for one in found:
        assert sum(one["parts"].values()) == pytest.approx(one["seconds"])
    # 8 x 0.494e9 operations x 5,120 samples x 410 tokens at 0.15 x 989 TFLOPS, and 28 bytes x 2 roles of optimizer
    assert found[0]["parts"]["update"] == pytest.approx(55.922 + 0.0118, rel=1e-3)
    assert found[0]["parts"]["host"] == pytest.approx(5120 * 1.1e-4)
    assert found[1]["parts"]["host"] == pytest.approx(640 * 1e-4 + 5120 * 1e-5)
    hours = [one["gpu_hours_per_million"] for one in found]
    assert hours == sorted(hours)
    assert hours[0] == pytest.approx(found[0]["seconds"] / 5120 * 1e6 / 3600)


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
        sys.executable,
        str(ROOT / "benchmarks" / "throughput.py"),
        "--quick",
        "--contenders",
        "single",
        "trl_rloo",
    ]
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


@pytest.mark.matrix
def test_the_cost_of_a_reward_is_the_ratio_of_the_sums_over_rounds(tmp_path):
    line = [sys.executable, str(ROOT / "benchmarks" / "progress_cost.py"), "--contestants", "progress", "--seeds", "1"]
    line += ["--rounds", "2", "--output", str(tmp_path / "found.json")]
    done = subprocess.run(line, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads((tmp_path / "found.json").read_text())
    seconds = {name: sum(each) for name, each in found["seconds"]["1"].items()}
    assert set(seconds) == {"trained", "progress"} and min(seconds.values()) > 0
    (ratio,) = found["ratios"]["progress"]["by_seed"]
    assert ratio == pytest.approx(seconds["progress"] / seconds["trained"], rel=0.05)  # seconds are rounded
