"""Checking in processes that can be killed: nothing is lost, nothing hangs, results are in the order of the items."""

import os
import subprocess
import sys
import threading
import time

import pytest

from countdown_selfplay.domains.workers import Unchecked, Workers
from countdown_selfplay.errors import ConfigError

OBEY = "tests.unit.domains.checkers:obey"


@pytest.fixture
def obeying():
    made = []

    def make(**settings):
        made.append(Workers(OBEY, **settings))
        return made[-1]

    yield make
    for workers in made:
        workers.close()


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def words(results):
    return [result[0] if isinstance(result, list) else result.reason for result in results]


def test_results_come_in_the_order_of_the_items_and_processes_are_used_again():
    workers = Workers("tests.unit.domains.checkers:double", processes=2)
    assert workers.map([]) == [] and workers.map(list(range(50))) == [2 * i for i in range(50)]
    pids = [worker.process.pid for worker in workers._workers]
    assert workers.map([7]) == [14] and [worker.process.pid for worker in workers._workers] == pids
    assert (workers.counts.checked, workers.counts.restarts, workers.counts.failed_rate) == (51, 0, 0)
    workers.close()
    assert not any(alive(pid) for pid in pids)


def test_what_hangs_is_killed_at_its_deadline_and_the_rest_is_checked(obeying):
    workers = obeying(processes=2, deadline=1.0, straggler=9.0)
    start = time.monotonic()
    results = workers.map([["sleep", 600], "a", "b", "c"])
    assert words(results) == ["timed_out", "a", "b", "c"] and time.monotonic() - start < 60
    assert (workers.counts.timed_out, workers.counts.checked, workers.counts.failed_rate) == (1, 3, 0.25)
    assert words(workers.map(["d"])) == ["d"]  # the killed one was replaced


def test_the_item_of_a_worker_that_dies_is_checked_again_and_given_up_after_so_many_attempts(obeying, tmp_path):
    workers = obeying(processes=2, attempts=2)
    results = workers.map([["die once", str(tmp_path / "once")], ["die"], "a"])
    assert words(results) == ["die once", "died", "a"]
    assert (workers.counts.died, workers.counts.restarts) == (1, 3)  # once, and twice


def test_a_straggler_is_done_twice_and_taken_once(obeying, tmp_path):
    workers = obeying(processes=2, deadline=50.0, straggler=0.2)
    start = time.monotonic()
    results = workers.map([["sleep once", str(tmp_path / "slow")], "a"])
    assert words(results) == ["sleep once", "a"] and time.monotonic() - start < 40  # not the 60 s of the first
    assert (workers.counts.twice, workers.counts.checked) == (1, 2)


def test_what_the_function_raises_prints_or_eats_is_its_own_affair(obeying):
    results = obeying(processes=1, megabytes=2048).map([["raise"], ["print"], ["eat"], "a"])
    assert results[0] == Unchecked("error", "ValueError: no")
    assert results[1][0] == "print" and results[3][0] == "a"
    assert results[2].reason == "error" and results[2].detail.startswith("MemoryError")


def test_it_works_outside_the_main_thread(obeying):
    found = []
    thread = threading.Thread(
        target=lambda: found.extend(obeying(processes=1, deadline=0.5).map([["sleep", 60], "a"]))
    )
    thread.start()
    thread.join(60)
    assert words(found) == ["timed_out", "a"]


def test_workers_end_with_the_process_that_started_them():
    program = (
        "import os\nfrom countdown_selfplay.domains.workers import Workers\n"
        f"w = Workers('{OBEY}', processes=1)\nprint(w.map(['a'])[0][1], flush=True)\nos._exit(1)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    pid = int(done.stdout)
    for _ in range(100):
        if not alive(pid):
            break
        time.sleep(0.1)
    assert not alive(pid)


def test_bad_settings_and_a_function_that_is_not_there_are_one_sentence(capfd):
    with pytest.raises(ConfigError, match=r"`deadline` \(0\) above 0 seconds"):
        Workers(OBEY, deadline=0)
    with pytest.raises(ConfigError, match=r"'nowhere:check' ended before it could start \(exit code 1\)"):
        Workers("nowhere:check", processes=1).map(["a"])
    assert "No module named 'nowhere'" in capfd.readouterr().err
