# Tests: distributed/processes.py
"""What processes exchange, where it can be told without starting any."""

import pytest

from countdown_selfplay.distributed.processes import Processes


@pytest.mark.parametrize("world", [1, 2, 3, 5])
@pytest.mark.parametrize("length", [0, 1, 2, 7, 10, 15])
def test_shares_in_rank_order_are_the_list_and_differ_by_one_at_most(world, length):
    shares = [Processes(rank, world).share(range(length)) for rank in range(world)]
    assert [item for share in shares for item in share] == list(range(length))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
