# Tests: warm_starts/iterated/driver.py, warm_starts/iterated/settings.py
"""What a refused resume says."""

import json

from countdown_selfplay.evaluation.answers import first_difference
from countdown_selfplay.warm_starts.iterated import IteratedSettings, RoleTraining
from countdown_selfplay.warm_starts.iterated.driver import comparable
from countdown_selfplay.warm_starts.iterated.settings import paper_roles


def settings(max_steps=None, **prover):
    roles = {**paper_roles(), "prover": RoleTraining(max_steps=max_steps, **prover)}
    found = {**IteratedSettings(role_training=roles).to_dict(), "problems": [f"p{i}" for i in range(100)]}
    return json.loads(json.dumps(found))  # as the run folder has them


def difference(then, now, begun):
    return first_difference(comparable(then, begun), comparable(now, begun))


def test_a_setting_of_a_role_is_named_with_its_values_and_a_larger_budget_is_no_other():
    assert difference(settings(), settings(), 2) is None
    said = difference(settings(learning_rate=[1e-3]), settings(learning_rate=[1e-4]), 0)
    assert said == ("role_training.prover.learning_rate", [0.001], [0.0001])
    then = settings()
    without = {**then, "role_training": {kind: then["role_training"][kind] for kind in ("prover", "helpful")}}
    assert difference(then, without, 1)[0] == "role_training.misleading"
    assert difference(settings([3, 5]), settings([3, 5, 7]), 2) is None
    assert difference(settings([3, 5]), settings([3, 6, 7]), 2) == ("role_training.prover.max_steps", [3, 5], [3, 6])
    assert difference(settings([3]), settings([3, 5]), 1) is None
    assert difference(settings([3]), settings([3, 5]), 2)  # iteration 2 took 3 steps too: the last value stands
