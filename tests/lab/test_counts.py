# Tests: lab/compare.py
"""Counts per problem and seed, kept beside a published table."""

import json

from tests.made_up_answers import write_answers

from countdown_selfplay.lab.compare import aligned_arms, compare_arms, load_arms, read_counts, write_counts


def test_a_table_is_made_again_from_its_counts_alone(tmp_path):
    counts = {"a-0": [0, 1, 2], "a-1": [1, 1, 2], "b-0": [3, 4, 4], "b-1": [2, 4, 4]}
    for name, correct in counts.items():
        write_answers(tmp_path / f"{name}.jsonl", correct, n=4)
    arms = aligned_arms(load_arms([f"{name}={tmp_path}/{name}-*.jsonl" for name in "ab"]))
    write_counts(tmp_path / "counts.json", arms)
    again = read_counts(tmp_path / "counts.json")
    assert compare_arms(again).to_dict() == compare_arms(arms).to_dict()
    found = json.loads((tmp_path / "counts.json").read_text())
    assert [row["correct"] for row in found["arms"]["b"]] == [[3, 4, 4], [2, 4, 4]]
    assert len(found["problems"]) == 3 and found["setting"] == arms[0].results[0].setting
