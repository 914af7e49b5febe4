"""JointSelfPlayConfig for tests."""

from countdown_selfplay import JointSelfPlayConfig
from countdown_selfplay.config.recipes import as_fields
from countdown_selfplay.config.roles import FIELDS, FLAT, FLAT_FIELDS, parsed_roles


def joint_config(*args, **settings):
    """With Countdown's arguments, as in a recipe, and the settings of a role without fields (prover_weights) by
    name."""
    fields = as_fields(settings)
    kinds = {name: name.partition("_")[::2] for name in fields.keys() - FLAT_FIELDS.keys()}
    rare = {name: of for name, of in kinds.items() if of[0] in FLAT and of[1] in FIELDS}
    if rare:
        fields["roles"] = parsed_roles(fields.get("roles"))
    for name, (kind, setting) in rare.items():
        fields["roles"].setdefault(kind, {})[setting] = fields.pop(name)
    return JointSelfPlayConfig(*args, **fields)
