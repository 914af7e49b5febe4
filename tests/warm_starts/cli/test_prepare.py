# Tests: warm_starts/cli/prepare.py, config/script.py, warm_starts/starts.py
"""`--prepare` of cdg, pool and sgs: what their recipes start from, made by the command itself."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from countdown_selfplay.cli.main import main
from countdown_selfplay.config.script import STARTS
from countdown_selfplay.countdown import CountdownDomain, generate_problems, heldout_key
from countdown_selfplay.errors import ConfigError, DataError
from countdown_selfplay.tiny import EMBEDDED, TINY_SPEC
from countdown_selfplay.warm_starts import starts
from countdown_selfplay.warm_starts.cli.prepare import alone, start_of, written
from countdown_selfplay.warm_starts.hard import HardProblems
from countdown_selfplay.warm_starts.starts import Job, fine_tune, sgs_start

PACKAGE = Path(starts.__file__).resolve().parents[1]


@pytest.fixture
def jobs(monkeypatch, tmp_path):
    """The warm starts that are asked for; each leaves its folder with a config."""
    monkeypatch.chdir(tmp_path)
    asked = []

    def leave(several):
        asked.extend(several)
        for job in several:
            job.folder.mkdir(parents=True)
            (job.folder / "config.json").touch()

    def targets(root, *_):
        (root / "targets.jsonl").touch()

    monkeypatch.setattr(starts, "fine_tune", leave)
    monkeypatch.setattr(starts, "_hard_targets", targets)
    return asked


def test_the_wheel_has_its_weights_and_no_command_of_a_checkout():
    assert sum(path.stat().st_size for path in PACKAGE.rglob("*.safetensors")) <= 12e6 and EMBEDDED
    assert [path for path in PACKAGE.rglob("*.py") if "python studies/" in path.read_text(encoding="utf-8")] == []
    assert all("python studies/" not in line for line in STARTS.values())


@pytest.mark.parametrize(("command", "made"), [
    ("cdg", ["runs/tiny-cdg-start"]),
    ("pool", ["runs/pool-start/prover_a", "runs/pool-start/conjecturer"]),
    ("sgs", ["runs/tiny-sgs/prover", "runs/tiny-sgs/conjecturer"]),
])  # fmt: skip
def test_prepare_makes_what_the_recipe_starts_from_once(command, made, jobs, capsys, monkeypatch):
    monkeypatch.setattr(starts, "critique_demonstrations", lambda *given, **more: [])
    monkeypatch.setattr(starts, "half_rows", lambda *given: ([], set()))
    monkeypatch.setattr(starts, "generated_rows", lambda *given, **more: [])
    assert main([command, "--prepare"]) == 0
    said = capsys.readouterr().out
    folder = made[0] if command == "cdg" else str(Path(made[0]).parent)
    assert [str(job.folder) for job in jobs] == made
    assert f"Making {folder}: " in said and f"s: {folder}. Now: countdown-selfplay {command}\n" in said
    assert main([command, "--prepare"]) == 0
    assert capsys.readouterr().out.startswith(f"{folder} is there: ") and len(jobs) == len(made)


def test_two_prepare_one_after_the_other_and_roles_of_one_recipe_are_made_for_it(jobs, capsys):
    folder = Path(starts.CDG)
    with alone(folder):
        assert main(["cdg", "--prepare"]) == 2
    said = capsys.readouterr().err
    assert said == f"countdown-selfplay: error: '{folder}' is being made by another `--prepare`; wait for it.\n"
    assert jobs == [] and list(folder.parent.iterdir()) == []
    assert main(["sgs", "--prepare", "--recipe", "tiny/sgs_judge"]) == 0
    assert [job.folder.name for job in jobs] == ["prover", "conjecturer", "guide"]
    assert "Now: countdown-selfplay sgs --recipe tiny/sgs_judge" in capsys.readouterr().out
    assert main(["sgs", "--prepare", "--recipe", "tiny/sgs_stp"]) == 0
    assert [job.folder.name for job in jobs[3:]] == ["stp_conjecturer"]  # the others are there


def test_what_cannot_be_prepared_is_one_sentence(jobs, capsys):
    for arguments, words in (
        (["cdg", "--prepare", "--max_steps", "3"], "takes no option but --recipe, and not '--max_steps'"),
        (["sgs", "--prepare", "--recipe", "tiny/default"], "recipe 'tiny/default' does not start from there"),
        (["cdg", "--prepare", "--recipe", "tiny/cgd"], "Unknown recipe 'tiny/cgd'. Did you mean 'tiny/cdg'?"),
        (["joint", "--prepare"], "Unknown option '--prepare'"),
    ):
        assert main(arguments) == 2
        said = capsys.readouterr().err
        assert words in said and said.count("\n") == 1, said
    assert jobs == [] and "model_name_or_path: runs/tiny-sgs/prover" in written("tiny/sgs_frozen")
    assert start_of("cdg", "tiny/cdg").folder == starts.CDG


def test_two_provers_of_a_pool_learn_from_disjoint_problems():
    from dataclasses import replace

    domain = replace(CountdownDomain.tiny(), spec=starts.FOUR)
    rows, taken = starts.half_rows(40, domain)
    mine = {domain.key(domain.problem(row)) for row in rows}
    assert len(rows) == 40 * 6 and len(mine) == 40 and mine <= taken
    assert not any(heldout_key(key) for key in mine)


def test_jobs_run_side_by_side_and_a_finished_folder_is_whole(tmp_path, monkeypatch, capsys):
    """With a stand-in for `sft` that writes half of its epoch, then a model."""
    program = (
        "import json, pathlib, sys; folder = pathlib.Path(sys.argv[1]); folder.mkdir(parents=True);"
        "(folder / 'metrics.jsonl').write_text(json.dumps({'step': 1, 'epoch': 0.5}) + chr(10));"
        "(folder / 'config.json').touch(); sys.exit('no luck' if folder.name == 'bad' else 0)"
    )
    monkeypatch.setattr(Job, "command", property(lambda job: [starts.sys.executable, "-c", program, job.begun]))
    monkeypatch.setattr(starts, "_LOOK", 0.01)
    good = [Job(tmp_path / name) for name in ("a", "b", "c")]
    fine_tune(good)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "c"]
    assert all((job.folder / "config.json").exists() for job in good)
    assert Job(tmp_path / "a").share() == 0.0  # its unfinished folder is gone
    with pytest.raises(starts.ConfigError, match=r"The warm start '.*bad' failed: no luck"):
        fine_tune([Job(tmp_path / "bad")])
    assert not (tmp_path / "bad").exists()
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "adapter_config.json").touch()  # an adapter is a start too, though not one that is made here
    with pytest.raises(starts.ConfigError, match=r"'.*own' holds other files than a model of this warm start"):
        fine_tune([Job(tmp_path / "own")])
    assert (tmp_path / "own" / "adapter_config.json").exists()


def test_a_job_is_a_command_of_sft(tmp_path):
    job = Job(tmp_path / "x", options={"operands": (2, 3), "num_train_epochs": 2})
    assert job.command[1:6] == ["-m", "countdown_selfplay.cli.main", "sft", "--recipe", "tiny/sft"]
    assert job.command[6:] == [
        *("--operands", "2", "3", "--num_train_epochs", "2"),
        *("--output_dir", str(tmp_path / ".unfinished" / "x"), "--disable_tqdm", "true"),
    ]
    job.begun.mkdir(parents=True)
    lines = [{"step": 1, "epoch": 0.5}, {"step": 2, "epoch": 1.0}]
    (job.begun / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert job.share() == 0.5  # one of two epochs


def test_a_quick_start_is_not_that_of_the_study(tmp_path):
    (tmp_path / "targets.jsonl").touch()
    for _ in range(2):
        sgs_start(tmp_path, [], 128, True)
    made = tmp_path / "made.json"
    assert json.loads(made.read_text()) == {"quick": True, "targets": 128, "attempts": 8, "most": 2}
    made.write_text('{"quick": true, "targets": 128}')  # as it was before the choice of targets was an option
    sgs_start(tmp_path, [], 128, True)
    said = "made for 128 targets solved at most 2 times in 8, with --quick, and this call is for"
    for targets, quick, most in ((320, False, 2), (128, False, 2), (320, True, 2), (128, True, 0)):
        with pytest.raises(ConfigError, match=said):
            sgs_start(tmp_path, [], targets, quick, most=most)


@pytest.mark.parametrize(("right", "said"), [
    # of 4 targets one has 2 right in 16: 1 - C(14, 8) / C(16, 8) = 23 / 30; a quarter of it is .192
    ([0, 0, 0, 2], "rate 0.0%), and 25.0% in as many new attempts (3.1%); 8 of these solve 19.2%."),
    # one right in 16 is among the first 8 half of the time: two of four such targets are .25, and 3 of 4 are .375
    ([0, 0, 1, 1], "16 attempts that chose them (mean solve rate 0.0%), and 50.0% in as many"),
    ([0, 1, 1, 1], "The solver solves 38% of the targets in 8 attempts; train it for less long."),
])  # fmt: skip
def test_harder_targets_are_chosen_by_as_many_attempts_as_asked(tmp_path, monkeypatch, capsys, right, said):
    problems = generate_problems(4, replace(TINY_SPEC, operands=(4,)), seed=1)
    chosen = {}

    def choose(model, tokenizer, domain, count, **asked):
        chosen.update(asked, count=count)
        return HardProblems(problems, [0, 0, 0, 0], right, 9, 16)

    monkeypatch.setattr("countdown_selfplay.warm_starts.starts.hard_problems", choose)
    monkeypatch.setattr("countdown_selfplay.tiny.load_tiny_model", lambda place: (None, None))
    try:
        sgs_start(tmp_path, [], 4, True, attempts=16, most=0)
    except DataError as refused:
        assert str(refused) == said and not (tmp_path / "targets.jsonl").exists()
    else:
        assert said in capsys.readouterr().out
        assert len((tmp_path / "targets.jsonl").read_text().splitlines()) == 4
    assert (chosen["attempts"], chosen["most"], chosen["count"]) == (16, 0, 4)
