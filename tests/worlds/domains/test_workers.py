# Tests: worlds/workers.py, worlds/worker.py
"""Checking in processes that can be killed; the pool's clock stands still until the test lets it go."""

import os
import signal
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from countdown_selfplay.errors import CheckerError, ConfigError
from countdown_selfplay.worlds import workers as module
from countdown_selfplay.worlds.workers import Unchecked, Workers, batch_seconds

OBEY = "tests.worlds.domains.checkers:obey"


@pytest.fixture
def obeying():
    made = []

    def make(task=OBEY, **settings):
        made.append(Workers(task, **settings))
        return made[-1]

    yield make
    for workers in made:
        workers.close()


@pytest.fixture
def clock(monkeypatch):
    """clock(condition, seconds): the pool's clock shows 0 until the condition holds, and from then on `seconds`."""
    hand = SimpleNamespace(condition=lambda: False, seconds=0.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: hand.seconds if hand.condition() else 0.0))

    def wind(condition, seconds):
        hand.condition, hand.seconds = condition, seconds

    return wind


def after(workers, answers):
    """The condition that so many items of a call have their results."""
    seen, take = [0], workers._take

    def counted(worker, results):
        take(worker, results)
        seen[0] = max(seen[0], len(results))

    workers._take = counted
    return lambda: seen[0] >= answers


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def words(results):
    return [result[0] if isinstance(result, list) else result.reason for result in results]


def test_results_come_in_the_order_of_the_items_and_processes_are_used_again(obeying, clock):
    workers = obeying("tests.worlds.domains.checkers:double", processes=2)
    assert workers.map([]) == [] and workers.map(list(range(50))) == [2 * i for i in range(50)]
    pids = [worker.process.pid for worker in workers._workers]
    assert workers.map([7]) == [14] and [worker.process.pid for worker in workers._workers] == pids
    assert workers.counts["checked"] == 51 and not workers.counts["ended"]
    workers.close()
    assert not any(alive(pid) for pid in pids)


def test_what_hangs_is_killed_at_its_deadline_and_the_rest_is_checked(obeying, clock, tmp_path):
    workers = obeying(processes=2, deadline=10.0, straggler=99.0)
    clock(after(workers, 3), 10.5)
    results = workers.map([["hang", str(tmp_path / "hung")], "a", "b", "c"])
    assert words(results) == ["timed_out", "a", "b", "c"]
    assert (workers.counts["timed_out"], workers.counts["checked"], workers.counts["ended"]) == (1, 3, 1)
    assert words(workers.map(["d"])) == ["d"]  # the killed one was replaced


def test_the_item_of_a_worker_that_dies_is_checked_again_and_given_up_after_so_many_attempts(obeying, clock, tmp_path):
    workers = obeying(processes=2, attempts=2)
    results = workers.map([["die once", str(tmp_path / "once")], ["die"], "a"])
    assert words(results) == ["die once", "died", "a"]
    assert (workers.counts["died"], workers.counts["ended"]) == (1, 3)  # once, and twice


def test_a_straggler_is_done_twice_and_taken_once(obeying, clock, tmp_path):
    workers = obeying(processes=2, deadline=50.0, straggler=5.0)
    clock(after(workers, 1), 6.0)
    results = workers.map([["hang once", str(tmp_path / "slow")], "a"])
    assert words(results) == ["hang once", "a"]
    assert (workers.counts["twice"], workers.counts["checked"]) == (1, 2)


def test_what_a_function_raises_prints_or_eats_and_an_interruption_leave_nothing_behind(obeying, clock):
    results = obeying(processes=1, megabytes=2048).map([["raise"], ["print"], ["eat"], "a"])
    assert results[0] == Unchecked("error", "ValueError: no")
    assert results[1][0] == "print" and results[3][0] == "a"
    assert results[2].reason == "error" and results[2].detail.startswith("MemoryError")
    # Its first item was at work; the number of the next call's first item is the same.
    workers = obeying(processes=1)
    hand_out = workers._hand_out

    def interrupted(*given):
        hand_out(*given)
        if any(worker.item is not None for worker in workers._workers):
            raise KeyboardInterrupt

    workers._hand_out = interrupted
    with pytest.raises(KeyboardInterrupt):
        workers.map(["stale"])
    workers._hand_out = hand_out
    assert words(workers.map(["fresh"])) == ["fresh"]


def test_it_works_outside_the_main_thread(obeying, clock, tmp_path):
    found, hung = [], tmp_path / "hung"
    clock(hung.exists, 11.0)
    workers = obeying(processes=1, deadline=10.0)
    thread = threading.Thread(target=lambda: found.extend(workers.map([["hang", str(hung)], "a"])))
    thread.start()
    thread.join()
    assert words(found) == ["timed_out", "a"]


def test_workers_end_with_the_process_that_started_them():
    """The worker inherits the pipe that stands for stderr here: its end is seen only once the worker has ended too."""
    program = (
        "import os\nfrom countdown_selfplay.worlds.workers import Workers\n"
        f"w = Workers('{OBEY}', processes=1)\nprint(w.map(['a'])[0][1], flush=True)\nos._exit(1)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=550)
    assert int(done.stdout) > 0


def test_a_function_that_is_not_there_is_one_sentence_and_a_batch_has_its_time(capfd):
    with pytest.raises(ConfigError, match=r"'nowhere:check' ended \(exit code 1\) before it was ready"):
        Workers("nowhere:check", processes=1).map(["a"])
    assert "No module named 'nowhere'" in capfd.readouterr().err
    assert [batch_seconds(items, 10.0) for items in (1, 600, 1024)] == [300.0, 300.0, 512.0]


@pytest.fixture
def failing(tmp_path, monkeypatch, obeying):
    """(pool of one process, folder). A start dies by SIGKILL, as the kernel ends what takes the last memory, and takes
    a file whose name begins with `die` with it; with a file `hang` it takes that one and hangs."""
    (tmp_path / "restive.py").write_text(
        "import os, signal\nfrom pathlib import Path\nfrom tests.worlds.domains.checkers import hang, obey\n"
        f"here = Path({str(tmp_path)!r})\n"
        "for file in sorted(here.glob('die*'))[:1]:\n    file.unlink()\n    os.kill(os.getpid(), signal.SIGKILL)\n"
        "if (here / 'hang').exists():\n    (here / 'hang').unlink()\n    hang(here / 'hung')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(module, "PAUSE_S", 0.0)
    workers = obeying("restive:obey", processes=1)
    assert words(workers.map(["a"])) == ["a"]
    return workers, tmp_path


def test_a_replacement_that_dies_while_it_starts_is_started_again(failing, clock):
    workers, folder = failing
    (folder / "die").touch()
    assert words(workers.map([["die once", str(folder / "once")]])) == ["die once"]
    assert (workers.counts["ready"], workers.counts["ended"]) == (2, 2)  # ended: one at work, one at its start


def test_a_start_that_takes_too_long_is_ended_and_tried_again(failing, clock):
    workers, folder = failing
    (folder / "hang").touch()
    workers.batch = 10 * module.START_S
    clock((folder / "hung").exists, module.START_S + 1)
    assert words(workers.map([["die once", str(folder / "once")]])) == ["die once"]
    assert (workers.counts["ready"], workers.counts["ended"]) == (2, 2)


def test_starts_that_fail_in_a_row_are_given_up_in_one_sentence(failing, clock):
    workers, folder = failing
    for i in range(5):  # STARTS
        (folder / f"die{i}").touch()
    with pytest.raises(CheckerError, match=r"the last of 5 in a row ended \(exit code -9\).*resume"):
        workers.map([["die once", str(folder / "once")]])
    assert words(workers.map(["a"])) == ["a"]  # there is memory again


def test_a_start_that_failed_is_followed_by_a_pause_that_doubles(failing, clock, monkeypatch):
    workers, _ = failing
    monkeypatch.setattr(module, "PAUSE_S", 2.0)
    clock(lambda: True, 100.0)
    for pause in (2, 4, 8, 16, 32, 60, 60):  # not given up: the worker of the first call is ready
        workers._failed_start("ended")
        assert workers._next_start == 100 + pause
    workers._drop(workers._workers[0])
    workers._fill(1)
    assert not workers._workers
    clock(lambda: True, 160.0)
    workers._fill(1)
    assert len(workers._workers) == 1


def test_a_worker_that_died_while_nothing_was_asked_is_no_failed_start(failing, clock):
    workers, _ = failing
    os.kill(workers._workers[0].process.pid, signal.SIGKILL)
    workers._workers[0].process.wait()
    assert words(workers.map(["a", "b"])) == ["a", "b"]


def test_a_batch_of_answers_that_hang_is_ended_as_a_whole(obeying, clock, tmp_path, caplog):
    workers = obeying(processes=1, deadline=1000.0, batch=50.0)
    clock((tmp_path / "0").exists, 51.0)
    results = workers.map([["hang", str(tmp_path / str(i))] for i in range(200)])
    assert results == [Unchecked("batch_timed_out")] * 200 and workers.counts["batch_timed_out"] == 200
    assert "200 of 200 answers are not checked" in caplog.text and "50 s, was up" in caplog.text
    assert words(workers.map(["a"])) == ["a"]  # the next one has its own time


def test_a_batch_ends_where_every_worker_dies_as_soon_as_it_is_ready(obeying, clock):
    workers, deaths = obeying(processes=1, batch=50.0), []
    take = workers._take

    def killed_when_ready(worker, results):
        take(worker, results)
        if worker.ready:
            assert len(deaths) < 5, "it goes on for ever"
            deaths.append(worker.process.pid)
            worker.process.kill()
            worker.process.wait()

    workers._take = killed_when_ready
    clock(lambda: len(deaths) > 2, 51.0)
    assert workers.map(["a"]) == [Unchecked("batch_timed_out")]
