# Tests: cli/joint.py, config/recipes.py
"""SmolLM2-135M in moves: the two recipes play for two steps and one round; nothing is claimed about learning."""

import json
import os

import pytest

from countdown_selfplay.cli.main import main

from .test_recipes_played import flags


def lines(folder):
    found = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [line for line in found if "loss" in line]


@pytest.mark.slow
@pytest.mark.skipif("SMOLLM2" not in os.environ, reason="SMOLLM2 must name a folder with SmolLM2-135M-Instruct")
def test_smollm2_is_shown_the_format_of_a_move_and_plays_a_round(tmp_path):
    """Two steps do not teach the format, so the probe for it is off. A round of 2 problems x 2 episodes."""
    start, run = tmp_path / "moves", tmp_path / "ladder"
    short = {"max_steps": "2", "demonstrations": "8", "save_strategy": "no", "disable_tqdm": "true"}
    own = {"model_name_or_path": os.environ["SMOLLM2"], "output_dir": str(start)}
    assert main(["sft", *flags({"recipe": "smollm2-135m/sft_moves"}, own, short)]) == 0
    assert [line["step"] for line in lines(start)] == [1, 2] and (start / "model.safetensors").is_file()
    own = {"model_name_or_path": str(start), "output_dir": str(run)}
    short = {"max_steps": "1", "problems_per_round": "2", "prover_num_generations": "2", "format_probe": "0"}
    short |= {"disable_tqdm": "true", "report": "false", "prover_sequences_per_step": "2"}
    short |= {"prover_demonstrations_per_step": "2", "prover_max_completion_length": "16"}
    assert main(["joint", *flags({"recipe": "smollm2-135m/ladder"}, own, short)]) == 0
    (played,) = lines(run)
    # an episode of 2 to 5 numbers has 1 to 4 moves, of at most 16 tokens each
    assert 1 <= played["prover/moves"] <= 4 and 1 <= played["prover/completion_length"] <= 4 * 16
    assert 0 <= played["prover/truncated_rate"] <= 1 and (run / "prover" / "model.safetensors").is_file()
