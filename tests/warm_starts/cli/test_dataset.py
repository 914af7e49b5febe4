# Tests: warm_starts/cli/dataset.py, warm_starts/hard.py, warm_starts/cli/solve_rates.py
"""`countdown-selfplay dataset` and `solve-rates`: files of problems, demonstrations, hard targets, and solve rates."""

import json
import shutil
from pathlib import Path

import pytest

from countdown_selfplay import JointSelfPlayConfig
from countdown_selfplay.cli.main import main
from countdown_selfplay.config.recipes import spread
from countdown_selfplay.countdown import (
    CountdownDomain,
    Problem,
    ProblemSpec,
    Rules,
    all_solutions,
    count_solutions,
    generate_problems,
    heldout_key,
    heldout_problems,
    problem_from_row,
    verify,
)
from countdown_selfplay.countdown.generator import _operand_counts
from countdown_selfplay.data.anchors import GENERATED_ANCHORS
from countdown_selfplay.domains import domain_from
from countdown_selfplay.errors import ConfigError, DataError
from countdown_selfplay.proposers.symbolic.difficulty import read_labels
from countdown_selfplay.tiny import TINY_MODEL_PATH, load_tiny_model
from countdown_selfplay.warm_starts import hard
from countdown_selfplay.warm_starts.cli import dataset, solve_rates

TINY = CountdownDomain.tiny()
HANDFUL = ["--operands", "2", "--number_high", "3", "--target_low", "1"]


@pytest.fixture
def write(tmp_path, shown):
    """The rows of the file that a line of `dataset` writes, and what it prints."""

    def written(line, *more, name="out.jsonl"):
        out = shown("dataset", tmp_path / name, *line.split(), *more)
        lines = (tmp_path / name).read_text(encoding="utf-8").splitlines() if name.endswith(".jsonl") else ()
        return [json.loads(line) for line in lines], out

    return written


def test_the_default_file_holds_what_the_generator_gives_in_ranges_split_and_counts(tmp_path, write):
    rows, out = write("--count 30 --seed 5")
    assert [problem_from_row(row, i) for i, row in enumerate(rows)] == generate_problems(30, seed=5)
    assert "30 problems" in out and "split train, seed 5" in out
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["out.jsonl", "out.jsonl.meta"]  # nothing unfinished
    for row in write("--count 20 --schema solved")[0]:
        assert verify(row["completion"], Problem(tuple(row["numbers"]), row["target"])).correct
    rows, _ = write("--count 20 --split heldout --operands 2 5 --number_high 20 --target_low 30 --target_high 60")
    assert len(rows) == 20
    for row in rows:
        assert len(row["nums"]) in (2, 5) and max(row["nums"]) <= 20 and 30 <= row["target"] <= 60
        assert heldout_key(problem_from_row(row, 0).key)


def test_the_rules_and_all_that_it_takes_to_make_the_file_again_stand_beside_it(tmp_path, write):
    asked = "--count 7 --seed 3 --operands 3 --integers_only --target_high 40 --exclude heldout-v1"
    rows, _ = write(asked)
    meta = json.loads((tmp_path / "out.jsonl.meta").read_text(encoding="utf-8"))
    rules = Rules.from_dict(meta["rules"])
    assert rules == Rules(integers_only=True)
    assert (meta["problems"], meta["with_operands"], meta["excluded_files"]) == (7, {"3": 7}, ["heldout-v1"])
    spec = ProblemSpec(**meta["spec"])
    again = generate_problems(7, spec, meta["seed"], heldout_problems(), meta["split"], rules)
    assert [problem_from_row(row, 0) for row in rows] == again


def test_parquet_and_jsonl_hold_the_same_rows_group_by_group(tmp_path, write, monkeypatch):
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr(dataset, "ROW_GROUP", 4)
    for schema in ("nums", "ground_truth", "prover", "solved", "proposed"):
        rows, _ = write(f"--count 10 --schema {schema}")
        write(f"--count 10 --schema {schema}", name="out.parquet")
        assert parquet.ParquetFile(tmp_path / "out.parquet").num_row_groups == 3  # 4 + 4 + 2
        assert parquet.read_table(tmp_path / "out.parquet").to_pylist() == rows


def test_difficulty_and_operators_are_conditions(write):
    rows, _ = write("--count 10 --min_solutions 2 --max_solutions 3")
    assert {count_solutions(problem_from_row(row, 0)) for row in rows} == {2, 3}
    for row in write("--count 10 --needs / -")[0]:
        assert all("/" in text and "-" in text for text in all_solutions(problem_from_row(row, 0)))


def test_excluded_problems_and_the_frozen_set_are_left_out_and_counted(tmp_path, write):
    def keys(rows):
        return {problem_from_row(row, 0).key for row in rows}

    first, _ = write("--count 15", name="first.jsonl")
    rows, out = write("--count 15 --exclude", tmp_path / "first.jsonl")
    assert len(rows) == 15 and not keys(first) & keys(rows)
    assert "left out: 15 that overlap with the 15 excluded problems" in out
    held_out = {p.key for p in heldout_problems()}
    asked = "--count 600 --operands 3 --split heldout --seed 20000"
    assert held_out & keys(write(asked)[0])  # the same draws: they would overlap
    rows, out = write(asked, "--exclude", "heldout-v1")
    assert not held_out & keys(rows) and "excluded problems" in out


def test_a_file_of_moves_and_a_file_of_problems_for_them(tmp_path):
    given = ["--operands", "2", "8", "--number_high", "12", "--prover_prompt", "compact_moves", "--count", "10"]
    shown, held = tmp_path / "shown.jsonl", tmp_path / "held.jsonl"
    assert dataset.main([str(shown), "--schema", "moves", *given]) == 0
    rows = [json.loads(line) for line in shown.read_text().splitlines()]
    assert len(rows) > 10 and all(len(row["completion"].split()) == 5 for row in rows)
    assert json.loads((tmp_path / "shown.jsonl.meta").read_text())["problems"] == 10
    assert dataset.main([str(held), "--schema", "prover", "--split", "heldout", *given]) == 0
    rows = [json.loads(line) for line in held.read_text().splitlines()]
    assert len(rows) == 10 and all(TINY.is_held_out(TINY.problem(row)) for row in rows)
    for more in (["--schema", "solved"], ["--schema", "moves", "--split", "heldout"], ["--needs", "*"]):
        with pytest.raises(ConfigError, match="moves"):
            dataset.main([str(tmp_path / "no.jsonl"), *given, *more])


def test_solve_rates_are_collected_where_a_predictor_reads_them(tmp_path, shown):
    out = tmp_path / "rates.jsonl"
    said = shown("solve-rates tiny --problems 12 --samples 2 --out", out)
    features, rates, attempts = read_labels(str(out), CountdownDomain.tiny())
    assert features.shape == (12, 21) and set(attempts) == {2} and set(rates) <= {0, 0.5, 1} and rates.sum() > 0
    assert f"mean solve rate {rates.mean():.3f}" in said
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert not any(heldout_key(",".join(map(str, sorted(row["numbers"]))) + f"={row['target']}") for row in rows)


def test_solve_rates_of_a_run_are_of_problems_that_it_did_not_play_and_sampled_as_in_training(tmp_path, monkeypatch):
    # a run that described itself, with the temperature of its training and another of its evaluation
    run = tmp_path / "run"
    shutil.copytree(TINY_MODEL_PATH, run / "prover")
    args = JointSelfPlayConfig.from_recipe("tiny/rloo", output_dir=str(run), use_cpu=True)
    domain = domain_from(args)
    config = {**spread(args.to_dict()), "temperature": 0.7, "eval_preset": "joint_rloo"}
    (run / "run.json").write_text(json.dumps({"name": "run", "config": config, "rules": domain.rules.to_dict()}))
    seen = {}
    monkeypatch.setattr(solve_rates, "collect", lambda *given, **sampling: seen.update(given=given, **sampling) or 0.5)
    assert main(["solve-rates", str(run), "--problems", "40", "--seed", str(args.seed)]) == 0
    assert seen["temperature"] == 0.7 and seen["max_new_tokens"] == args.max_completion_length
    played = {domain.key(problem) for problem in domain.random(GENERATED_ANCHORS, args.seed, frozenset())}
    asked = [domain.key(problem) for problem in seen["given"][2]]
    assert len(set(asked)) == 40 and not played & set(asked)
    # of other numbers than the run's, none of which it generated either
    assert main(["solve-rates", str(run), "--problems", "40", "--number_high", "8"]) == 0
    asked = seen["given"][2]
    assert len(asked) == 40 and not played & set(map(domain.key, asked))
    assert max(max(problem.numbers) for problem in asked) <= 8 < domain.spec.number_high


def test_hard_problems_are_those_that_the_model_rarely_solves():
    model, tokenizer = load_tiny_model()
    sampling = dict(max_new_tokens=16, seed=1)
    found = hard.hard_problems(model, tokenizer, CountdownDomain.tiny(), 8, **sampling)
    assert len(found.problems) == len({p.key for p in found.problems}) == 8 and max(found.correct) <= 2
    # the new attempts were not looked at when the problems were chosen: their counts are others, and may exceed 2
    assert len(found.fresh) == 8 and found.fresh != found.correct
    assert found.baseline == sum(count > 0 for count in found.fresh) / 8
    assert 8 < found.tried <= 32  # about a third of problems with three numbers is that hard
    with pytest.raises(DataError, match=r"Only 0 of 20 problems are solved at most -1 times in 8"):
        hard.hard_problems(model, tokenizer, CountdownDomain.tiny(), 1, most=-1, **sampling)


HARD = ("--hard_for", "tiny", "--count", "6", "--operands", "3", "--number_high", "12", "--seed", "2")


def test_the_command_makes_a_set_that_a_model_finds_hard(tmp_path, shown):
    out, held = tmp_path / "targets.jsonl", tmp_path / "held.jsonl"
    held.write_text('{"nums": [1, 2, 3], "target": 6}\n')
    said = shown("dataset", out, *HARD, "--exclude", held)
    meta = json.loads((tmp_path / "targets.jsonl.meta").read_text())
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    chosen = meta["hard_for"]
    assert len(rows) == 6 == chosen["targets"] and rows[0].keys() == {"nums", "target"}
    assert (chosen["prompt"], chosen["max_new_tokens"], meta["prover_prompt"]) == ("compact", 16, "compact")
    assert max(chosen["chosen_by"]) <= 2 and len(chosen["new_attempts"]) == 6 and chosen["candidates"] == 64
    rates = [sum(count > 0 for count in chosen[name]) / 6 for name in ("chosen_by", "new_attempts")]
    means = [sum(chosen[name]) / 48 for name in ("chosen_by", "new_attempts")]
    solved = chosen["candidates_solved"]
    assert 6 < solved < 64 and f"6 targets of 64 problems, {solved} of which were solved at least once" in said
    assert f"of the targets {rates[0]:.1%} in the 8 attempts that chose them" in said
    assert f"(mean solve rate {means[0]:.1%}), and {rates[1]:.1%} in as many new attempts ({means[1]:.1%})." in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["held.jsonl", "targets.jsonl", "targets.jsonl.meta"]


def test_a_search_for_hard_problems_goes_on_where_it_was_ended(tmp_path, run, monkeypatch):
    (tmp_path / "whole").mkdir()
    assert main(["dataset", str(tmp_path / "whole" / "targets.jsonl"), *HARD]) == 0
    evaluate, calls = hard.evaluation.evaluate_prover, []

    def count(*given, **asked):
        calls.append(len(given[2]))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return evaluate(*given, **asked)

    monkeypatch.setattr(hard.evaluation, "evaluate_prover", count)
    out, file = tmp_path / "targets.jsonl", tmp_path / ".targets.jsonl.attempts"
    assert main(["dataset", str(out), *HARD]) == 130 and not out.exists()
    file.write_bytes(file.read_bytes() + b'{"key": "1,2')  # as a kill may leave it
    code, _, error = run("dataset --most 1", out, *HARD)
    assert code == 2 and "holds the attempts of another call (it differs in most)" in error
    assert main(["dataset", str(out), *HARD]) == 0
    assert calls == [64, 6, 6] and not file.exists()  # the 64 candidates were not attempted again
    for name in ("targets.jsonl", "targets.jsonl.meta"):
        assert (tmp_path / name).read_text() == (tmp_path / "whole" / name).read_text()


@pytest.mark.parametrize("schema", ["x.jsonl", "x.parquet"])
def test_a_disk_that_is_full_is_one_sentence(schema, tmp_path, monkeypatch, refused):
    """/dev/full refuses every write with ENOSPC; the unfinished file of the command is led there."""
    monkeypatch.chdir(tmp_path)
    Path(f".{schema}.unfinished").symlink_to("/dev/full")
    error = refused("dataset", schema, "--count", 30)
    assert f"'{schema}' cannot be written: " in error and "No space left" in error and not Path(schema).exists()


def test_more_problems_than_there_can_be_are_refused_at_once_or_without_a_list_as_long(tmp_path, monkeypatch, refused):
    """Two numbers from 1 to 3 and targets 1 to 4: C(3 + 1, 2) = 6 multisets x 4 targets = 24."""
    monkeypatch.chdir(tmp_path)
    error = refused("dataset x.jsonl --count 1000000000 --target_high 4", *HANDFUL)
    assert "1000000000 problems are more than the 24" in error
    # The bound is no help where most targets cannot be reached: 6 x 10^9 here, and 1 to 9 are the only ones that can.
    # The operand counts of 4 x 10^9 problems would take 32 GB.
    error = refused("dataset x.jsonl --count 4000000000 --target_high 1000000000", *HANDFUL)
    assert "of 4000000000 problems were found" in error
    assert not Path("x.jsonl").exists()
    spec = ProblemSpec((2, 3, 5))
    whole = list(_operand_counts(7, spec, 200_000))  # four pieces of 65,536 and a rest
    assert len(whole) == 200_000 and whole[:70_000] == list(_operand_counts(7, spec, 70_000))
    assert {k: round(whole.count(k) / 200_000, 2) for k in (2, 3, 5)} == {2: 0.33, 3: 0.33, 5: 0.33}
    assert len(generate_problems(24, ProblemSpec((2,), 1, 30, 1, 30))) == 24
    with pytest.raises(ConfigError, match="25 problems are more than the 24"):
        generate_problems(25, ProblemSpec((2,), 1, 3, 1, 4))
