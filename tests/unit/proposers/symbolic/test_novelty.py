# Tests: proposers/symbolic/selection.py
"""Exact nearest neighbours: against brute force, in one go and in pieces."""

import numpy as np
import pytest

from countdown_selfplay.proposers.symbolic.selection import Nearest, NoveltyArchive


def brute(points, known):
    return np.sqrt(((points[:, None] - known[None]) ** 2).sum(2)).min(1)


@pytest.mark.parametrize("total", [1, 1500, 6000])
def test_distances_are_those_of_a_search_through_all(total):
    generator = np.random.default_rng(total)
    known, points = generator.random((total, 5)), generator.random((40, 5))
    points[0] = known[0]
    index = Nearest(5)
    for start in range(0, total, 1500):
        index.add(known[start : start + 1500])
    found = index.distance(points)
    assert found == pytest.approx(brute(points, known), abs=1e-12) and found[0] == 0
    at_once = Nearest(5)
    at_once.add(known)
    assert (at_once.distance(points) == found).all()  # a resumed run adds all at once
    assert np.array_equal(index.points_AF, known) and len(index) == total


def test_the_archives_distance_is_the_root_mean_square_and_1_without_a_point():
    archive = NoveltyArchive(7)
    archive.add(["a"], np.zeros((1, 7)))
    point = np.zeros((1, 7))
    point[0, :2] = 0.6, 0.8  # length 1, over the root of 7 columns
    assert archive.distance(point) == pytest.approx([1 / 7**0.5])
    assert "a" in archive and "b" not in archive and len(archive) == 1
    assert Nearest(3).distance(np.zeros((2, 3))).tolist() == [np.inf] * 2
    assert NoveltyArchive(7).distance(np.zeros((2, 7))).tolist() == [1.0] * 2
    index = Nearest(4)
    index.add(np.repeat(np.eye(4), 5000, axis=0))
    assert index.distance(np.zeros((1, 4))).tolist() == [1.0] and len(index) == 20_000


def test_a_saved_archive_comes_back():
    archive = NoveltyArchive(7)
    archive.open({"rules": {"use_all": True}, "prover_prompt": "compact"})
    archive.add(["a", "b"], np.random.default_rng(0).random((2, 7)))
    again = NoveltyArchive(7)
    again.load_state_dict(archive.state_dict())
    point = np.full((1, 7), 0.3)
    assert again.listed == ["a", "b"] and (again.distance(point) == archive.distance(point)).all()
    again.open({"rules": {"use_all": True}, "prover_prompt": "tinyzero"})  # a prompt changes no distance
