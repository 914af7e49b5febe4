# Tests: tools/convert_settings.py
"""Settings that counted rows, in problems and proposals; each size by hand."""

import json
import sys
from hashlib import sha256
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[3] / "tools"

RECIPES = {
    # 64 x 4 rows are 16 problems x 16 answers; 64 x 1 are 64 proposals
    "tiny/whole": {"per_device_train_batch_size": 64, "prover_micro_batches": 4, "num_generations": 16},
    # 512 episodes are 64 problems x 8; 96 proposals
    "tiny/moves": {
        "per_device_train_batch_size": 512, "prover_micro_batches": 10, "prover_samples_per_round": 512,
        "prover_num_generations": 8, "conjecturer_samples_per_round": 96, "conjecturer_num_generations": 96,
    },
}  # fmt: skip


@pytest.fixture
def tool(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    import convert_settings

    monkeypatch.setattr(convert_settings, "recipe_at", lambda base, name: dict(RECIPES[name]))
    yield convert_settings
    for name in ("convert_settings", "trees"):
        del sys.modules[name]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # two steps of 16 rows each: 32 rows x 2 / 4
        ({"roles": {"prover": {"micro_batches": 2, "num_generations": 4, "players": 2},
                    "conjecturer": {"micro_batches": 1}},
          "per_device_train_batch_size": 16, "steps_per_round": 2},
         {"problems_per_round": 16, "proposals_per_round": 32,
          "roles": {"prover": {"num_generations": 4, "players": 2}, "conjecturer": {}},
          "per_device_train_batch_size": 16, "steps_per_round": 2}),
        # samples count over all processes and steps; 40 proposals in groups of 16 were 32
        ({"prover_samples_per_round": 24, "conjecturer_samples_per_round": 40, "conjecturer_num_generations": 16},
         {"problems_per_round": 3, "proposals_per_round": 32, "conjecturer_num_generations": 16}),
        # 64 x 5 rows / (4 answers + 4 x 2 critiques x 2 revisions) = 16; 64 x 2 / (4 x 2) = 16
        ({"game": "critic_discernment", "game_kwargs": {"revisions": 2}, "per_device_train_batch_size": 64,
          "roles": {"prover": {"micro_batches": 5, "num_generations": 4},
                    "helpful": {"micro_batches": 2, "num_generations": 2}}},
         {"game": "critic_discernment", "game_kwargs": {"revisions": 2}, "per_device_train_batch_size": 64,
          "problems_per_round": 16, "roles": {"prover": {"num_generations": 4}, "helpful": {"num_generations": 2}}}),
        # over a recipe: what differs from it, and nothing else
        ({"recipe": "tiny/whole", "prover_micro_batches": 4}, {"recipe": "tiny/whole"}),
        ({"recipe": "tiny/whole", "per_device_train_batch_size": 16, "prover_micro_batches": 16},
         {"recipe": "tiny/whole", "per_device_train_batch_size": 16, "proposals_per_round": 16}),
        # a plain num_generations hides a role's: 512 / 4
        ({"recipe": "tiny/moves", "num_generations": 4},
         {"recipe": "tiny/moves", "num_generations": 4, "problems_per_round": 128}),
    ],
)  # fmt: skip
def test_a_round_keeps_its_problems_and_proposals(tool, old, new):
    assert tool.convert(old) == new


def test_the_folder_of_a_run_with_its_checkpoints(tool, tmp_path):
    settings = {"prover_micro_batches": 4, "roles.guide.micro_batches": 1, "roles": ["guide"], "seed": 0}
    run = {"name": "run", "config": settings | {"roles": None}, "environment": {"processes": 2}}
    (tmp_path / "run.json").write_text(json.dumps(run, indent=2) + "\n")
    folder = tmp_path / "checkpoint-5"
    folder.mkdir()
    (folder / "selfplay_state.json").write_text(json.dumps({"loop": 5, "settings": settings, "states": {}}))
    (folder / "complete.json").write_text(json.dumps({"processes": 2, "files": {"selfplay_state.json": [0, ""]}}))
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "prover/dropped_rows": 3, "loss": 0.5}\n')
    tool.rewrite(tmp_path, "any")
    assert (tmp_path / "metrics.jsonl").read_text() == '{"step": 1, "loss": 0.5}\n'
    own = {"problems_per_round": 8, "proposals_per_round": 16}  # 8 rows x 4 x 2 / 8, 8 x 1 x 2
    assert json.loads((tmp_path / "run.json").read_text())["config"] == {**own, "roles": None, "seed": 0}
    state = (folder / "selfplay_state.json").read_bytes()
    assert json.loads(state) == {"loop": 5, "settings": {**own, "roles": ["guide"], "seed": 0}, "states": {}}
    said = json.loads((folder / "complete.json").read_text())["files"]["selfplay_state.json"]
    assert said == [len(state), sha256(state).hexdigest()]
