# Tests: training/parts.py, contract/game.py, registry.py
"""Parts of a user's own: what does not fit is one sentence, before a model loads where that can be known."""

import pytest

from countdown_selfplay.errors import DataError

from .conftest import ran, rounds


@pytest.mark.parametrize(
    ("sharing", "found"),
    [("lora", r"saved/prover and .*saved/conjecturer"), ("tied", r"its policies lie in .*saved/policy\.")],
)
def test_a_folder_of_saved_policies_passed_as_a_model_names_them(build, tmp_path, sharing, found):
    build(max_steps=1, policy_sharing=sharing).save_model(str(tmp_path / "saved"))
    with pytest.raises(DataError, match=found):
        build(model=str(tmp_path / "saved"))


def test_a_reward_function_that_writes_into_the_completions_changes_no_verdict(build):
    def spoil(completions, **kwargs):
        for i in range(len(completions)):
            completions[i] = "1 + 1"
        return [0.0] * len(completions)

    lines = []
    for name, functions in (("plain", [lambda completions, **kwargs: [0.0] * len(completions)]), ("spoilt", [spoil])):
        trainer = ran(build(name, max_steps=1, trainer={"reward_funcs": functions}))
        lines.append(rounds(trainer.args.output_dir)[0]["prover/correct_rate"])
    assert lines[0] == lines[1] > 0
