# Tests: contract/domain.py, domains/__init__.py
"""A domain of a user's own through the commands: warm-started, evaluated, played, and what is refused."""

import json
import re

import pytest
from tests.toy_domain import Sums
from tests.warm_starts.cli.test_sft_and_ipo import write_rows

from countdown_selfplay.cli.main import main
from countdown_selfplay.domains import held_out_of, make_domain
from countdown_selfplay.evaluation import roles
from countdown_selfplay.evaluation.sampling import Completion
from countdown_selfplay.tiny import load_tiny_model

SUMS = "tests.toy_domain:Sums"
QUICK = ["--disable_tqdm", "true", "--use_cpu", "true", "--domain", SUMS]
SUM_OF = {(3, 5): 8, (20, 4): 24, (7, 9): 16, (11, 30): 41}


def read_rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def taught(tmp_path_factory):
    """A prover that was shown four sums and a conjecturer that wrote them, eighty times each; a fifth demonstration
    of both is wrong."""
    folder = tmp_path_factory.mktemp("toy")
    answers = [("prover", f"{a} + {b} :", a, b, str(c)) for (a, b), c in [*SUM_OF.items(), ((1, 2), 4)]]
    proposals = [("conjecturer", "propose 2 :", a, b, f"{a} + {b}") for a, b in SUM_OF]
    proposals += [("conjecturer", "propose 2 :", 1, 2, "2 + 1")]
    steps = ["--max_steps", "80", "--per_device_train_batch_size", "4", "--learning_rate", "2e-3"]
    evaluated = ["--eval_problems", "6", "--eval_samples", "2", "--eval_proposals", "8"]
    for role, rows in (("prover", answers), ("conjecturer", proposals)):
        rows = [{"a": a, "b": b, "prompt": prompt, "completion": text} for _, prompt, a, b, text in rows]
        data = ["--dataset_name", write_rows(folder / f"{role}.jsonl", *rows), "--domain_kwargs", '{"high": 30}']
        out = ["--role", role, "--output_dir", str(folder / role)]
        assert main(["sft", *out, *QUICK, *data, *steps, *evaluated]) == 0
    return folder


def test_a_warm_start_takes_right_demonstrations_alone_and_records_the_domain(taught):
    for role in ("prover", "conjecturer"):
        card = (taught / role / "README.md").read_text()
        assert "4 of 5 demonstrations kept; left out: 1 wrong" in card and "| high | 30 |" in card
        assert "Answers are judged by the verifier of the domain." in card
    run = json.loads((taught / "prover" / "run.json").read_text())
    assert run["domain"] == {"domain": "sums", "high": 30} and run["config"]["domain"] == SUMS and "rules" not in run
    measured = json.loads((taught / "prover" / "evaluation.json").read_text())["before"]["prover"]
    assert measured["problems"] == 6 and measured["setting"]["domain"] == {"domain": "sums", "high": 30}
    assert measured["keys"] == [Sums().key(p) for p in held_out_of(Sums(30), 6)]


def test_what_was_taught_is_solved_in_the_domain_that_the_run_recorded(taught, capsys):
    asked = [{"a": a, "b": b} for a, b in SUM_OF]
    output = taught / "answers.jsonl"
    command = ["eval", "--model", str(taught / "prover"), "--problems", write_rows(taught / "asked.jsonl", *asked)]
    assert main([*command, "--samples", "2", "--temperature", "0", "--output", str(output)]) == 0
    printed = capsys.readouterr().out
    assert "setting of run 'prover'" in printed and "right format" not in printed
    setting, *rows = read_rows(output)
    assert setting["domain"] == {"domain": "sums", "high": 30} and setting["n_problems"] == 4
    answers = {row["problem"]: (row["completion"].strip(), row["reason"], row["score"]) for row in rows}
    assert answers == {f"{a}+{b}": (str(c), "correct", 1.0) for (a, b), c in SUM_OF.items()}
    result = json.loads(output.with_suffix(".json").read_text())
    assert result["correct"] == [2, 2, 2, 2] and result["pass_at"]["1"]["value"] == 1.0
    assert result["reasons"] == {"correct": 8}


def test_three_rounds_of_propose_and_solve(taught, capsys):
    out = taught / "joint"
    size = ["--max_steps", "3", "--eval_problems", "8", "--eval_proposals", "16", "--num_generations_eval", "2"]
    models = ["--model_name_or_path", str(taught / "prover"), "--recipe", "tiny/default"]
    models += ["--conjecturer_model", str(taught / "conjecturer")]
    assert main(["joint", "--output_dir", str(out), *QUICK, *size, *models, "--logging_steps", "1"]) == 0
    printed = capsys.readouterr().out
    assert "prover pass@1" in printed and "conjecturer in range" in printed
    rounds = [row for row in read_rows(out / "metrics.jsonl") if "loss" in row]
    assert [row["step"] for row in rounds] == [1, 2, 3]
    for row in rounds:  # 16 problems a round; the reward is the verdict's score, 1 or 0
        assert row["round/anchor_slots"] + row["round/conjectured_slots"] == 16
        assert row["prover/rewards/sums_reward"] == pytest.approx(row["prover/correct_rate"], abs=1e-6)
        assert row["conjecturer/in_range_rate"] == row["conjecturer/parseable_rate"] > 0.5
    assert rounds[0]["round/conjectured_slots"] >= 4 and rounds[0]["round/solve_rate_mean"] > 0.5  # the four sums
    answers = [row for row in read_rows(out / "samples.jsonl") if row["role"] == "prover"]
    assert answers and all(re.fullmatch(r"\d+\+\d+", row["problem"]) for row in answers)
    for row in answers:
        a, b = map(int, row["problem"].split("+"))
        assert row["prompt"] == f"{a} + {b} :" and row["reward"] == float(row["completion"].split() == [str(a + b)])
    held_out = json.loads((out / "evaluation.json").read_text())["before"]["prover"]["keys"]
    assert len(held_out) == 8 and not set(held_out) & {row["problem"] for row in answers}
    assert json.loads((out / "run.json").read_text())["domain"] == {"domain": "sums", "high": 49}
    assert "| high | 49 |" in (out / "conjecturer" / "README.md").read_text()


def test_pairs_are_right_over_wrong_answers_to_one_sum_of_a_domain_made_from_its_name(tmp_path, capsys):
    # 3 + 5: one right, two wrong; 1 + 1: all wrong. A text is in one pair at most, so there is one pair.
    texts = [(3, 5, "8"), (3, 5, "9"), (3, 5, "1 2"), (1, 1, "3"), (1, 1, "4")]
    path = write_rows(tmp_path / "s.jsonl", *({"a": a, "b": b, "completion": text} for a, b, text in texts))
    assert main(["ipo", *QUICK, "--samples_file", path, "--dry_run", "true"]) == 0
    assert "5 samples (none) give 1 pairs" in capsys.readouterr().out
    assert make_domain(SUMS, '{"high": 7}').high == 7 and make_domain(SUMS, None).high == 49
    assert make_domain("countdown").to_dict()["domain"] == "countdown"


def test_a_conjecturers_rates_are_those_of_the_domains_facts(monkeypatch):
    texts = ["3 + 5", "3 + 5", "60 + 1", "+ 4"]  # two equal sums in range, one beyond, one that is none
    sampled = [[Completion(text, 4, False) for text in texts]]
    monkeypatch.setattr(roles, "sample_completions", lambda *given, **how: sampled)
    found = roles.evaluate_conjecturer(*load_tiny_model(), Sums(), n=4)
    facts = {name: fact.value for name, fact in found.facts.items()}
    assert found.parseable.value == 3 / 4 and facts == {"in_range": 2 / 4}
    assert found.unique is not None and found.unique.value == 2 / 3 and found.problems == [(3, 5), (3, 5)]
    assert found.reasons == {"ok": 2, "out_of_range": 1, "no sum": 1}
