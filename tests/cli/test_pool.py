# Tests: cli/commands.py, proposers/tiers.py
"""`countdown-selfplay pool`."""

from countdown_selfplay.cli.main import main

EMBEDDED = ["--recipe", "tiny/pool", "--model_name_or_path", "tiny", "--conjecturer_model_name_or_path", "tiny"]


def test_pool_is_joint_with_tiers_and_plans_its_round(tmp_path, capsys):
    assert main(["pool", *EMBEDDED, "--dry_run", "--output_dir", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    # tiny/pool: 32 proposals of each of two conjecturers, 64 problems x 4 answers of each of two provers
    assert "prover, each of 2: 32 x 8 x 1 = 256 samples = 64 problems x 4" in told
    assert "conjecturer, each of 2: 32 x 1 x 1 = 32 samples" in told


def test_what_is_no_pool_is_refused_in_one_line(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for options, words in (
        (["--recipe", "tiny/default"], "`proposer` (None) must be tiers here"),
        (["--roles", '{"conjecturer": {"players": 3}}'], "has 2 tiers and there are 3 conjecturers"),
        (["--roles", '{"prover": {"players": 0}}'], "leaves out a role that the game needs"),
        (
            ["--proposer_kwargs", '{"start": [2, 3, 4, 5], "ceiling": 4}'],
            "a rung for each tier, from 2 to 4 (operands)",
        ),
        (["--frontier_low", "0.8"], "`frontier_low` (0.8) and `frontier_high` (0.7) must satisfy low <= high"),
        (["--proposer_kwargs", '{"start": [3, 4], "low": 0.9}'], "`low` (0.9) and `high` (0.7)"),
        (["--operands", "3", "4"], "The tiers ask for 2 operands"),
        (["--roles", '{"prover": {"players": 2, "each": [{"model": "nowhere"}, {}]}}'], "'nowhere' cannot be loaded"),
        (["--conjecturer_model_name_or_path", "gone/conjecturer_1/round_5/model"], "conjecturer_1/round_5/model'"),
        (
            ["--model_name_or_path", "runs/pool-start/prover_a", "--recipe", "tiny/pool"],
            "is not there yet; run: countdown-selfplay pool --prepare.",
        ),
    ):
        start = [] if "--model_name_or_path" in options or "--recipe" in options else EMBEDDED
        assert main(["pool", "--output_dir", "run", "--report_to", "none", *start, *options]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1 and words in error, error
