# Tests: config/joint.py, config/part_rules.py, config/script.py, contract/stateful.py
"""`game` and `proposer` by name: what a game of one's own must have, and which arguments are taken."""

from tests.joint_config import joint_config

OWN = "tests.refusals.own:"


def test_a_game_by_name_has_its_roles_and_takes_its_arguments():
    found = joint_config(
        "unused",
        use_cpu=True,
        game=OWN + "Duel",
        game_kwargs='{"rounds": 2}',
        roles={"critic": {"players": 2}},
        proposer=OWN + "Critical",
    )
    assert found.trained_roles == ("prover", "critic/0", "critic/1") and found.game_arguments == {"rounds": 2}
