# Tests: proposers/symbolic/embedding.py, proposers/symbolic/novelty.py
"""Learned features of novelty: they part arithmetic structures on problems that they have not seen."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
from tests.toy_domain import Sums

from countdown_selfplay.countdown import CountdownDomain, Problem
from countdown_selfplay.errors import ConfigError, UnknownNameError
from countdown_selfplay.proposers.symbolic.embedding import Embedding, Wanted, seen
from countdown_selfplay.proposers.symbolic.novelty import NOVELTIES
from countdown_selfplay.testing import ScriptedRound, in_ranks

DOMAIN = CountdownDomain.tiny()
SMALL = {"problems": 100, "steps": 3}
SPEC = importlib.util.spec_from_file_location(
    "novelty_features", Path(__file__).parents[4] / "benchmarks" / "novelty_features.py"
)
MEASURE = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(MEASURE)


def points(embedding, problems, domain=DOMAIN):
    a_round = ScriptedRound(lambda role, row, i: "", {"prover": (8, 8)}, domain=domain)
    return embedding.points(a_round, problems, DOMAIN.mutations.features(problems))


def test_structures_are_shares_of_solutions():
    problems = [Problem(numbers, target) for numbers, target in (((2, 3, 4), 14), ((2, 3, 4), 24), ((3, 4, 6), 27))]
    found = DOMAIN.mutations.structures([*problems, Problem((1, 1, 1), 99)])
    # 14 = 2 * (3 + 4) = 2 + 3 * 4: a sum in a product and a product in a sum; 24 = 2 * 3 * 4, and nothing else;
    # 27 = 3 + 4 * 6, of the second structure of 14; 1, 1, 1 do not reach 99
    assert sorted(found[0].tolist()) == [0, 0.5, 0.5] and sorted(found[1].tolist()) == [0, 0, 1]
    assert found[0] @ found[1] == 0 and found[0] @ found[2] == 0.5 and found[3].tolist() == [0, 0, 0]


def test_wanted_distances_by_hand():
    structures = np.array([[1.0, 0.0], [0.5, 0.5], [1.0, 0.0]])
    columns = np.array([[0.0, 0.0], [0.0, 0.0], [0.6, 0.8]])
    found = Wanted(structures, columns, within=0.36).between(np.arange(3))
    # structures differ by .5 and by 0, columns by 0 and by sqrt((.36 + .64) / 2); weights .64 and .36
    assert found[0, 1] == pytest.approx(0.8 * 0.5) and found[0, 2] == pytest.approx(0.6 * 0.5**0.5)
    assert found[1, 2] == pytest.approx((0.64 * 0.25 + 0.36 * 0.5) ** 0.5) and found.diagonal().tolist() == [0] * 3


def test_problems_of_one_structure_are_nearest_on_held_out_problems_and_do_not_collapse():
    problems = DOMAIN.held_out(400)
    found = {
        name: MEASURE.separation(points_PF, DOMAIN.mutations.structures(problems))
        for name, points_PF in MEASURE.spaces(DOMAIN, problems).items()
    }
    # a pair that shares all structures is nearer than one that shares none; the nearest problem shares all
    assert found["learned"].parted > 0.995 > found["13"].parted
    assert found["learned"].nearest > max(found["7"].nearest, found["13"].nearest) + 0.1
    assert found["learned"].gap > 5 * found["7"].gap


def test_separation_by_hand():
    # on a line at 0, 1, 3 and 4; the first two have one structure, the others another
    found = MEASURE.separation(np.array([[0.0], [1.0], [3.0], [4.0]]), np.array([[1, 0], [1, 0], [0, 1], [0, 1]]))
    # pairs of one structure are 1 apart, others 2 or more
    assert found == (1.0, 1.0, 1.0)
    found = MEASURE.separation(np.array([[0.0], [3.0], [1.0], [4.0]]), np.array([[1, 0], [1, 0], [0, 1], [0, 1]]))
    # pairs of one structure are 3 apart, which is less than one of the others: 1, 4, 2 and 1
    assert found == (0.25, 0.0, 1.0)


def test_training_and_a_restored_encoder_are_exact():
    problems = DOMAIN.held_out(20)
    first, second, other = Embedding(**SMALL), Embedding(**SMALL), Embedding(**SMALL, seed=1)
    found = points(first, problems)
    assert found.shape == (20, 8) and (found >= 0).all() and (found <= 1).all()
    assert (points(second, problems) == found).all() and (points(other, problems) != found).any()
    other.load_state_dict(json.loads(json.dumps(first.state_dict(), default=np.ndarray.tolist)))
    assert (points(other, problems) == found).all()


def test_all_processes_have_the_points_of_the_first():
    """Processors may differ in the last bit: the second one's weights are off by more here, and its points are not."""
    problems, first, second = DOMAIN.held_out(5), Embedding(**SMALL), Embedding(**SMALL)
    expected = points(first, problems)
    second.load_state_dict(first.state_dict())
    second.weights[-1] = second.weights[-1] + 1

    def play(rank, gather):
        given = dict(domain=DOMAIN, rank=rank, world=2, gather=gather)
        a_round = ScriptedRound(lambda role, row, i: "", {"prover": (8, 8)}, **given)
        return [first, second][rank].points(a_round, problems, DOMAIN.mutations.features(problems))

    for found in in_ranks(2, play):
        assert found.tolist() == expected.tolist()
    assert points(first, []).shape == (0, 8)


def test_held_out_problems_of_a_run_are_not_trained_on():
    class Watched(CountdownDomain):
        def random(self, n, seed, exclude=()):
            asked.append(exclude)
            return super().random(n, seed, exclude)

    asked, problems = [], DOMAIN.held_out(4)
    domain = Watched(DOMAIN.spec, DOMAIN.rules, "compact", "compact")
    held_out = frozenset(["1,2,3=6"])
    a_round = ScriptedRound(lambda role, row, i: "", {"prover": (8, 8)}, domain=domain, held_out=held_out)
    Embedding(**SMALL).points(a_round, problems, DOMAIN.mutations.features(problems))
    assert asked == [held_out]


def test_another_version_or_other_columns_are_refused():
    trained, problems = Embedding(**SMALL), DOMAIN.held_out(3)
    trained.fit(DOMAIN)
    with pytest.raises(ConfigError, match="learned features have version 0, and this run 1"):
        Embedding(**SMALL).load_state_dict({**trained.state_dict(), "version": 0})
    with pytest.raises(ConfigError, match="trained on 34 columns, and the domain now gives 33"):
        trained.encode(seen(DOMAIN, problems, DOMAIN.mutations.features(problems))[:, 1:])


def test_what_cannot_be_trained_is_refused():
    with pytest.raises(ConfigError, match=r"the domain Sums has no `mutations.structures`"):
        Embedding().fit(Sums())
    with pytest.raises(UnknownNameError, match="Unknown features '8'"):
        NOVELTIES.make("8")
    for given in ({"problems": 1}, {"dimensions": True}, {"within": 1.5}, {"learning_rate": -1}, {"steps": 0}):
        with pytest.raises(ConfigError, match=f"`{next(iter(given))}` .* of features 'learned' must be"):
            NOVELTIES.make("learned", given)
