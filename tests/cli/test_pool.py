# Tests: cli/commands.py, proposers/tiers.py
"""`countdown-selfplay pool`."""

from countdown_selfplay.cli.main import main

EMBEDDED = ["--recipe", "tiny/pool", "--model_name_or_path", "tiny", "--conjecturer_model", "tiny"]


def test_pool_is_joint_with_tiers_and_plans_its_round(tmp_path, capsys):
    assert main(["pool", *EMBEDDED, "--dry_run", "--output_dir", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    # tiny/pool: 32 proposals of each of two conjecturers, 64 problems x 4 answers of each of two provers
    assert "prover, each of 2: 64 problems x 4 = 256 answers" in told
    assert "conjecturer, each of 2: 1 prompt x 32 = 32 proposals" in told
