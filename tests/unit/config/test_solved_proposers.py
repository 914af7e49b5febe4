# Tests: config/joint.py
"""Proposers that need the exact solver are refused before a run of more numbers than it takes."""

import pytest

from countdown_selfplay import JointSelfPlayConfig
from countdown_selfplay.errors import ConfigError


@pytest.mark.parametrize("proposer", ["mutation", "ucb", "thompson", "factorized"])
def test_a_proposer_that_needs_the_solver_points_to_those_that_do_not(proposer, tmp_path):
    """The recipe goes to 20 numbers, the solver to 6."""
    with pytest.raises(ConfigError, match=rf"{proposer}.*ends at 6 numbers.*go to 20.*ucb_rungs or thompson_rungs"):
        JointSelfPlayConfig.from_recipe("tiny/ladder", output_dir=str(tmp_path), proposer=proposer)
