# Tests: distributed/processes.py
"""What processes exchange, where it can be told without starting any."""

import pytest

from countdown_selfplay.distributed.processes import ALONE, Processes


@pytest.mark.parametrize("world", [1, 2, 3, 5])
@pytest.mark.parametrize("length", [0, 1, 2, 7, 10, 15])
def test_shares_in_rank_order_are_the_list_and_differ_by_one_at_most(world, length):
    shares = [Processes(rank, world).share(range(length)) for rank in range(world)]
    assert [item for share in shares for item in share] == list(range(length))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_seven_of_three():
    assert [Processes(rank, 3).share("abcdefg") for rank in range(3)] == [["a", "b"], ["c", "d"], ["e", "f", "g"]]


def test_one_process_has_it_all():
    assert ALONE.share((1, 2, 3)) == [1, 2, 3] and ALONE.gather([1]) == [1] and ALONE.total([2.0]) == [2.0]
