# Tests: games/propose_and_solve.py
"""A resume may change proposer and guide: the new one starts anew, what stayed goes on."""

from countdown_selfplay.games import ProposeAndSolve
from countdown_selfplay.proposers import make_proposer


def game(proposer, **kwargs):
    return ProposeAndSolve(make_proposer(proposer, kwargs))


def test_a_proposer_of_another_class_starts_anew_and_the_archive_goes_on():
    there, here = game("tiers", start=[3, 4]), game("targets", batch=6)
    fresh = here.proposer.state_dict()
    saved = there.state_dict()
    here.load_state_dict(saved)
    assert here.proposer.state_dict() == fresh and here.archive.state_dict() == saved["archive"]


def test_one_of_the_same_class_goes_on_where_it_stood():
    there, here = game("tiers", start=[2, 3]), game("tiers", start=[3, 4])
    here.load_state_dict(there.state_dict())
    assert here.proposer.state_dict() == there.proposer.state_dict()
