# Tests: training/store.py, training/checkpoints.py
"""SIGKILL before any file operation and in any pass, and a full disk: it ends as an unharmed run."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.matrix

RUN = dict(
    max_steps=5, save_strategy="steps", save_steps=1, save_total_limit=2, guard=True, guard_window=2, beta=0.05,
    novelty_window=3, prover_objective="expert_iteration", learning_rate=1e-4, steps_per_round=2,
    per_device_train_batch_size=4,
)  # fmt: skip
SAME = ("weights", "optimizer", "held", "rounds")


class Player:
    """One process that forks for each run."""

    def __init__(self):
        worker = Path(__file__).with_name("deaths_worker.py")
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
        self.process = subprocess.Popen(
            [sys.executable, str(worker)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def play(self, output, kill=None, **job):
        job = {"output": str(output), "kill": kill, "config": RUN, **job}
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith(('{"weights', '{"error', '{"killed')):
                return json.loads(line)
        raise AssertionError("the player ended")


@pytest.fixture(scope="module")
def player():
    player = Player()
    yield player
    player.process.stdin.close()
    assert player.process.wait() == 0


@pytest.fixture(scope="module")
def straight(player, tmp_path_factory):
    return {
        lora: player.play(tmp_path_factory.mktemp("straight") / "run", lora=lora, kill=None) for lora in (False, True)
    }


def dies_and_goes_on(player, straight, output, kills, lora=False, by="kill"):
    """Killed before the given operations, or by `kill_in` in the given passes, one life after the other, and then left
    alone."""
    for kill in kills:
        found = player.play(output, **{by: kill}, lora=lora)
        assert found == {"killed": True} or "weights" in found, found  # it may end before that many operations
    found, whole = player.play(output, lora=lora), straight[lora]
    if found["optimizer"] is None:  # nothing was left to train: there is no proposer, which the first round makes
        found, whole = ({**one, "optimizer": None, "held": one["held"]["frame"]} for one in (found, whole))
    for name in SAME:
        assert found[name] == whole[name], (name, kills)


# Shares of the operations of a whole run: of the first save, of the second, of rotation, of the rollback, of the last
# rounds; the fourth is killed again while it resumes (an early operation of its second life).
@pytest.mark.parametrize(
    ("share", "again", "lora"),
    [
        (0.05, None, False),
        (0.3, None, True),
        (0.45, None, False),
        (0.6, 3, False),
        (0.75, None, True),
        (0.97, 2, False),
    ],
)
def test_a_run_that_is_killed_at_a_fixed_point_continues_bit_for_bit(player, straight, tmp_path, share, again, lora):
    first = max(1, round(share * straight[lora]["operations"]))
    dies_and_goes_on(player, straight, tmp_path / "run", [first, again] if again else [first], lora)


# In the first step of the run, in the middle, behind the rollback, and in the last pass.
@pytest.mark.parametrize(("share", "lora"), [(0.04, True), (0.5, False), (0.77, True), (1.0, False)])
def test_a_run_that_is_killed_in_a_pass_continues_bit_for_bit(player, straight, tmp_path, share, lora):
    assert straight[lora]["passes"] > 7 * 2 * 2  # 5 rounds, of which two are played twice, of two steps
    dies_and_goes_on(player, straight, tmp_path / "run", [round(share * straight[lora]["passes"])], lora, "kill_in")


@pytest.mark.nightly
@pytest.mark.timeout(5400)
def test_a_run_that_is_killed_at_sixty_random_points_continues_bit_for_bit(player, straight, tmp_path):
    draw, deaths, lives = random.Random(20261122), 0, 0
    while deaths < 60:
        lora = lives % 2 == 1
        kills = [draw.randint(1, straight[lora]["operations"]) for _ in range(draw.randint(1, 3))]
        dies_and_goes_on(player, straight, tmp_path / f"run{lives}", kills, lora)
        deaths, lives = deaths + len(kills), lives + 1
    print(f"{deaths} kills in {lives} runs, all continued bit for bit")


@pytest.fixture
def small_disk(tmp_path):
    """A file system of its own in memory, whose size can be changed."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256M", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"NOT TESTED: a full disk, for this user may not mount one ({done.stderr.strip()})")

    def resize(size):
        subprocess.run(["mount", "-o", f"remount,size={size}", str(folder)], check=True)

    yield folder, resize
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("where", ["checkpoint", "log"])
def test_a_run_whose_disk_is_full_says_so_and_continues_bit_for_bit_with_more_space(
    player, straight, small_disk, where
):
    """checkpoint: two fit, the third does not. log: the disk is full but for less than a line when it starts."""
    folder, resize = small_disk
    first = player.play(folder / "run", config={**RUN, "max_steps": 2})
    assert "weights" in first, first
    used = sum(f.stat().st_size for f in (folder / "run").rglob("*") if f.is_file())
    if where == "checkpoint":
        resize(f"{(used + used // 4) // 1024}k")
    else:
        resize(f"{used // 1024 + 900}k")
        filler = folder / "filler"
        with filler.open("wb", buffering=0) as file:
            while True:
                try:
                    file.write(b"0" * 4096)
                except OSError:
                    break
    found = player.play(folder / "run")
    assert "RunFolderError" in found["error"] and "No space left" in found["error"], found
    assert ("could not be written" in found["error"]) == (where == "checkpoint"), found
    resize("256M")
    found = player.play(folder / "run")
    assert "weights" in found, found
    for name in SAME:
        assert found[name] == straight[False][name], name
