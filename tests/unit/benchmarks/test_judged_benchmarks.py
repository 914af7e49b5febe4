# Tests: benchmarks/gpu_hour.py, benchmarks/regression.py
"""The benchmark of a GPU hour asks its scripts for what they know and goes on where it ended; ratios are judged."""

import os
from pathlib import Path

import pytest


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


@pytest.mark.parametrize(
    ("up", "now", "expected"),
    [
        (True, [1.2, 1.3], "worse"),
        (False, [1.2, 1.3], "better"),
        (True, [1.7, 1.9], "better"),
        (False, [1.7, 1.9], "worse"),
        (True, [1.3, 1.5], "same"),  # the intervals meet at 1.5
        (False, [1.0, 2.0], "same"),
    ],
)
def test_a_ratio_is_worse_if_its_interval_does_not_meet_the_stored_one(bench, up, now, expected):
    """The stored interval is [1.5, 1.6]."""
    regression = bench("regression")
    row = regression.Row("r", "c", (), up)
    assert regression.verdict(row, {"interval": [1.5, 1.6]}, {"interval": now}) == expected
    assert regression.verdict(row, None, {"interval": now}) == "new"
