# Tests: lab/cli/compare.py, lab/compare.py
"""`countdown-selfplay compare` on answer files with known counts."""

import json

import pytest
from tests.made_up_answers import counted, write_answers
from tests.made_up_runs import printed
from tests.real_counts import IPO, SFT

from countdown_selfplay.lab.compare import aligned_arms, load_arms, write_counts


def compare(capsys, *arguments):
    return printed(capsys, "compare", *arguments)


def result(folder):
    return json.loads((folder / "comparison.json").read_text())


def test_the_public_counts_give_the_published_difference(tmp_path, capsys):
    # FACTS: 50 public test problems, pass@1 .3325 and .35875, pass@4 .627703 and .640033, ipo - sft at pass@1
    # +.02625 [-.0187, .0725] (paired percentile bootstrap, 10,000 resamples; the ends move by .002 with the seed).
    sft, ipo = write_answers(tmp_path / "sft.jsonl", SFT), write_answers(tmp_path / "ipo.jsonl", IPO)
    code, out, _ = compare(capsys, sft, ipo, "--output", tmp_path / "c")
    assert code == 0
    found = result(tmp_path / "c")
    assert [found["pass_at"][arm]["1"]["value"] for arm in ("sft", "ipo")] == pytest.approx([0.3325, 0.35875])
    at_4 = [found["pass_at"][arm]["4"]["value"] for arm in ("sft", "ipo")]
    assert at_4 == pytest.approx([0.627703, 0.640033], abs=5e-7)
    first = found["differences"][0]
    assert first["percentile"]["difference"] == pytest.approx(0.02625)
    assert (first["percentile"]["low"], first["percentile"]["high"]) == pytest.approx((-0.0187, 0.0725), abs=3e-3)
    assert [d["k"] for d in found["differences"]] == [1, 2, 4, 8, 16]
    assert first["bonferroni"]["low"] < first["percentile"]["low"] < 0 < first["p"] < first["p_holm"] <= 1
    assert "5 intervals of differences: if no arm differed, 5 x 5% = 0.25" in out
    assert "+0.0262" in out and "Baseline: sft" in out


def test_a_difference_that_is_the_same_on_every_problem_is_as_certain_as_problems_are_many(tmp_path, capsys):
    # 2 more right answers of 4 on each of 4 problems: every resample has a difference of exactly 1/2. At most w =
    # 3.841459 / 7.841459 = .489891 of others differ from that, by -1.5 to .5. It would exclude 0 for z^2 < 4 x .5, and
    # of z = sqrt(2) both tails of the normal distribution hold .157299.
    a = write_answers(tmp_path / "a.jsonl", [0, 1, 2, 1], n=4)
    b = write_answers(tmp_path / "b.jsonl", [2, 3, 4, 3], n=4)
    assert compare(capsys, a, b, "--ks", 1, "--output", tmp_path / "c")[0] == 0
    (only,) = result(tmp_path / "c")["differences"]
    for name in ("percentile", "bonferroni"):
        assert only[name] == pytest.approx({"difference": 0.5, "low": -0.234836, "high": 0.744945}, abs=1e-6)
    assert only["p"] == only["p_holm"] == pytest.approx(0.157299, abs=1e-6)
    for name, counts in (("a", [0] * 64), ("b", [4] * 64)):
        write_answers(tmp_path / f"{name}.jsonl", counts, n=4)
    assert compare(capsys, a, b, "--ks", 1, "--output", tmp_path / "c")[0] == 0
    (only,) = result(tmp_path / "c")["differences"]
    assert only["p"] == pytest.approx(2 / 10_001)  # the least that 10,000 resamples can say


def test_several_training_seeds_are_one_arm_with_wider_intervals(tmp_path, capsys):
    # Seeds of b differ by 4 right answers of 8: a new seed may lie anywhere between, so the interval must span that.
    a = write_answers(tmp_path / "a.jsonl", [3] * 40, n=8)
    for i, count in enumerate((3, 5, 7)):
        write_answers(tmp_path / f"b-{i}.jsonl", [count] * 40, n=8)
    code, out, _ = compare(capsys, a, f"b={tmp_path}/b-*.jsonl", "--ks", 1, "--output", tmp_path / "c")
    assert code == 0
    (only,) = result(tmp_path / "c")["differences"]
    assert only["percentile"]["difference"] == pytest.approx((5 - 3) / 8)
    # Only b has several seeds: t with 2 degrees of freedom, 4.3027, times the root of the variance of (3, 5, 7) / 8,
    # 1/16, over 3 seeds: 4.3027 / 4 / sqrt(3) = .6210. All problems are alike and add nothing.
    low, high = 0.25 - 0.6210, 0.25 + 0.6210
    assert (only["percentile"]["low"], only["percentile"]["high"]) == pytest.approx((low, high), abs=5e-3)
    assert only["p"] > 0.05
    assert "Few training seeds (b has 3)" in out and "One training seed of a: the spread over its seeds is" in out
    assert result(tmp_path / "c")["training_seeds"] == {"a": 1, "b": 3}


def test_other_numbers_of_answers_ways_to_write_filters_and_cut_answers_are_no_refusal(tmp_path, capsys):
    a = write_answers(tmp_path / "a.jsonl", [2, 0], n=4)
    b = write_answers(tmp_path / "b.jsonl", [4, 4], n=16)
    assert compare(capsys, a, b, "--output", tmp_path / "c")[0] == 0
    differences = result(tmp_path / "c")["differences"]
    assert [d["k"] for d in differences] == [1, 2, 4]
    assert differences[0]["percentile"]["difference"] == 0  # a: (1/2 + 0) / 2; b: 1/4
    a = write_answers(tmp_path / "a.jsonl", [1, 2], n=4, top_p=1.0, top_k=0)
    b = write_answers(tmp_path / "b.jsonl", [1, 2], n=4, top_p=None, top_k=None, seed=3, model="another")
    assert compare(capsys, a, b)[0] == 0
    a = write_answers(tmp_path / "a.jsonl", [1, 2], n=50, truncated=1)
    b = write_answers(tmp_path / "b.jsonl", [1, 2], n=50, truncated=2)
    _, out, _ = compare(capsys, a, b)
    assert out.count("were cut at the token budget") == 1  # 1 of 100 is no more than 1%
    assert f"2.0% of the answers in '{b}'" in out


def test_other_problems_are_compared_on_the_common_ones_only_if_asked(tmp_path, capsys):
    a = write_answers(tmp_path / "a.jsonl", [4, 0, 2], n=4, keys=["x", "y", "x"])
    b = write_answers(tmp_path / "b.jsonl", [3, 1, 4, 0], n=4, keys=["y", "x", "z", "z"])
    code, out, err = compare(capsys, a, b)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "has 4 problems and" in err and "of which 2 are the same; pass --common" in err
    assert compare(capsys, a, b, "--common", "--ks", 1, "--output", tmp_path / "c")[0] == 0
    found = result(tmp_path / "c")
    # x: a 4, b 1; y: a 0, b 3; the second x is only in a. Mean difference ((1 - 4) + (3 - 0)) / 8 = 0.
    assert found["problems"] == 2 and found["differences"][0]["percentile"]["difference"] == 0
    assert [found["pass_at"][arm]["1"]["value"] for arm in ("a", "b")] == [0.5, 0.5]


@pytest.mark.parametrize(("changes", "message"), [
    ({"temperature": 1.0}, "temperature 1.0 and"),
    ({"rules": {"answer_rule": "any"}}, "rules."),
    ({"stop_strings": ["</answer>"]}, "stop_strings ['</answer>'] and"),
    ({"generation_kwargs": {"suppress_tokens": [5]}}, "generation_kwargs.suppress_tokens [5] and"),
    ({"chat_template_kwargs": {"enable_thinking": False}}, "chat_template_kwargs.enable_thinking False and"),
])  # fmt: skip
def test_other_settings_are_refused_unless_allowed(tmp_path, capsys, changes, message):
    off = {"min_p": 0.0, "stop_strings": [], "generation_kwargs": {}, "chat_template_kwargs": {}}
    a = write_answers(tmp_path / "a.jsonl", [1, 2], n=4, **off)
    b = write_answers(tmp_path / "b.jsonl", [1, 2], n=4, **{**off, **changes})
    code, out, err = compare(capsys, a, b)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err and "--allow_different_settings" in err
    code, out, _ = compare(capsys, a, b, "--allow_different_settings")
    assert code == 0 and "Different settings are compared" in out


def test_unlike_precisions_are_named(tmp_path, capsys):
    a = write_answers(tmp_path / "a.jsonl", [1, 2], n=4, dtype="float32")
    b = write_answers(tmp_path / "b.jsonl", [1, 2], n=4, dtype="bfloat16")
    out = compare(capsys, a, b)[1]
    assert "The models computed in different precisions: bfloat16, float32." in out


def run_folder(path, before, after):
    path.mkdir()
    sides = {"before": {"prover": counted(before)}, "after": {"prover": counted(after)}}
    (path / "evaluation.json").write_text(json.dumps(sides))
    return path


def test_run_folders_are_compared_after_training_and_with_before(tmp_path, capsys):
    one, two = run_folder(tmp_path / "one", [1, 1], [2, 2]), run_folder(tmp_path / "two", [1, 1], [3, 4])
    assert compare(capsys, f"start={one}:before", one, two, "--ks", 1, "--output", tmp_path / "c")[0] == 0
    found = result(tmp_path / "c")
    assert found["arms"] == ["start", "one", "two"]
    assert [d["percentile"]["difference"] for d in found["differences"]] == [0.25, 0.625]


def test_the_counts_of_a_published_table_are_kept_by_arm_and_seed(tmp_path):
    for name, correct in {"a-0": [0, 1, 2], "a-1": [1, 1, 2], "b-0": [3, 4, 4], "b-1": [2, 4, 4]}.items():
        write_answers(tmp_path / f"{name}.jsonl", correct, n=4)
    arms = aligned_arms(load_arms([f"{name}={tmp_path}/{name}-*.jsonl" for name in "ab"]))
    write_counts(tmp_path / "counts.json", arms)
    found = json.loads((tmp_path / "counts.json").read_text())
    assert found["arms"]["b"] == [{"n": 4, "correct": [3, 4, 4]}, {"n": 4, "correct": [2, 4, 4]}]
    assert len(found["problems"]) == 3 and found["setting"] == arms[0].results[0].setting
