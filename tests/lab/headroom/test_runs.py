# Tests: lab/headroom/runs.py
"""What is measured on what, of a domain whose problems are few."""

from pathlib import Path

import pytest

from countdown_selfplay import JointSelfPlayConfig
from countdown_selfplay.contract.domain import BaseDomain
from countdown_selfplay.errors import ConfigError
from countdown_selfplay.lab.headroom import runs as module
from countdown_selfplay.lab.headroom.runs import Runs, Stop


class Few(BaseDomain):
    """Six problems of each rung, always in the same order, and no held-out side."""

    rungs = (1, 2)

    def key(self, problem):
        return "/".join(map(str, problem))

    def rung(self, problem):
        return problem[0]

    def random_of_rung(self, n, rung, seed, exclude):
        return [p for p in ((rung, i) for i in range(6)) if self.key(p) not in exclude][:n]


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(module, "domain_from", lambda config: Few())
    return lambda problems: Runs(
        lambda changes: (JointSelfPlayConfig.from_recipe("tiny/ladder", **changes), {}), Path("unused"), 2, problems
    )


def test_no_held_out_problem_is_a_tuning_problem_and_a_rung_without_any_is_refused(few):
    runs = few(3)
    assert runs.held_out == {rung: [(rung, i) for i in (0, 1, 2)] for rung in (1, 2)}
    assert runs.tuning == {rung: [(rung, i) for i in (3, 4, 5)] for rung in (1, 2)}
    assert runs.group == 8 and runs.trained_conjecturer  # of recipe tiny/ladder
    with pytest.raises(ConfigError, match="makes no training problem of rung 1"):
        few(6)


@pytest.mark.parametrize("save", [True, False])
def test_a_run_stops_at_its_step_with_a_checkpoint_only_where_it_goes_on(save):
    class Seen:
        global_step, should_training_stop, should_save = 3, False, False

    Stop(4, save).on_step_end(None, Seen, Seen)
    assert not Seen.should_training_stop and not Seen.should_save
    Seen.global_step = 4
    Stop(4, save).on_step_end(None, Seen, Seen)
    assert Seen.should_training_stop and Seen.should_save is save
