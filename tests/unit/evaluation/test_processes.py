# Tests: distributed/processes.py, evaluation/roles.py, evaluation/terminal.py
"""Sharing an evaluation out over processes, and its progress line."""

import contextlib
import io
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

import pytest

from countdown_selfplay.countdown import CountdownDomain, generate_problems
from countdown_selfplay.distributed.processes import ALONE, Processes
from countdown_selfplay.evaluation import evaluate_conjecturer, evaluate_prover
from countdown_selfplay.evaluation.terminal import ProgressLine
from countdown_selfplay.tiny import TINY_SPEC, load_tiny_model


@dataclass(frozen=True)
class Told(Processes):
    """Processes whose gather is answered here."""

    answer: Callable = list

    def gather(self, items):
        return self.answer(items)


class Stop(Exception): ...


def played(world, work):
    """`work(processes)` of every rank in turn: a first pass finds what each rank gathers, a second one has it all."""
    sent: list[list] = []

    def gather(mine):
        sent.append(mine)
        raise Stop

    for rank in range(world):
        with contextlib.suppress(Stop):
            work(Told(rank, world, answer=gather))
    whole = [item for mine in sent for item in mine]
    return [work(Told(rank, world, answer=lambda mine: whole)) for rank in range(world)]


@pytest.mark.parametrize(("total", "world"), [(7, 3), (6, 3), (1, 4), (5, 1)])
def test_every_item_comes_back_in_its_place_and_all_shares_are_equally_long(total, world):
    items = list(range(total))
    shares = [Processes(rank, world).deal(items) for rank in range(world)]
    assert {len(share) for share in shares} == {-(-total // world)}
    whole = [item for share in shares for item in share]
    assert Told(0, world, answer=lambda mine: whole).collect(shares[0], total) == items


def test_the_processes_draw_different_numbers_and_one_process_draws_the_old_ones():
    assert ALONE.seed(5) == 5
    assert len({Processes(rank, 3).seed(5) for rank in range(3)}) == 3


def test_all_processes_return_the_same_evaluation_of_all_problems_and_rates_of_exactly_n_proposals():
    model, tokenizer = load_tiny_model()
    problems = generate_problems(7, TINY_SPEC, seed=0, split="heldout")
    asked = (model, tokenizer, problems, CountdownDomain.tiny())
    sampling = {"ks": (1,), "max_new_tokens": 16}

    def answer(processes):
        return evaluate_prover(*asked, n=4, **sampling, processes=processes).to_dict() | {"seconds": 0}

    first, second = played(2, answer)
    assert first == second and len(first["correct"]) == 7 and first["keys"] == [p.key for p in problems]

    def greedy(processes):
        return evaluate_prover(*asked, n=1, temperature=0, **sampling, processes=processes).correct

    assert played(2, greedy)[0] == greedy(ALONE)  # without draws the split changes nothing

    def propose(processes):
        found = evaluate_conjecturer(
            model, tokenizer, CountdownDomain.tiny(), n=33, max_new_tokens=16, processes=processes
        )
        return found.to_dict() | {"seconds": 0}

    first, second = played(2, propose)
    assert first == second and first["n"] == 33 and sum(first["reasons"].values()) == 33


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_sees_a_bar_that_is_drawn_over_or_none_and_a_file_nothing_of_short_work(monkeypatch):
    clock = count(0.0, 0.5)
    monkeypatch.setattr("tqdm.std.time", lambda: next(clock))
    seen = []
    for stream, enabled in ((Terminal(), False), (io.StringIO(), True), (Terminal(), True)):
        with ProgressLine("prover", enabled=enabled, stream=stream) as bar:
            for done in (0, 1, 4):
                bar(done, 4)
        seen.append(stream.getvalue())
    assert seen[:2] == ["", ""] and seen[2].count("\n") == 1
    assert "prover:  25%" in seen[2] and "1/4" in seen[2] and "prover: 100%" in seen[2]
