# Tests: warm_starts/iterated/select.py, warm_starts/filters.py, warm_starts/iterated/settings.py
"""What is trained on: thresholds, loops, repetitions, balance, masks; and what a refused resume says."""

import json
from collections import Counter

import pytest
from tests.cli.stand_in import make_tokenizer

from countdown_selfplay.errors import DataError
from countdown_selfplay.evaluation.answers import first_difference
from countdown_selfplay.warm_starts.filters import is_loop
from countdown_selfplay.warm_starts.iterated import IteratedSettings, RoleTraining
from countdown_selfplay.warm_starts.iterated.driver import comparable
from countdown_selfplay.warm_starts.iterated.retrain import token_ids
from countdown_selfplay.warm_starts.iterated.select import balanced, chosen, read, unseen, write
from countdown_selfplay.warm_starts.iterated.settings import paper_roles

PAPER = paper_roles()


def row(role="prover", reward=1.0, label="right", completion="text", prompt='"p"', **more):
    return {"role": role, "turn": 0, "prompt": prompt, "completion": completion, "shown": None, "reward": reward,
            "label": label, "problem": "k", "iteration": 1, "chunk": 0, "weights": "start", **more}  # fmt: skip


@pytest.mark.parametrize(("role", "reward", "kept"), [
    ("misleading", 3 / 4, True),  # three of four revisions were misled
    ("misleading", 2 / 4, False),
    ("helpful", 2 / 4, True),  # two of four corrected
    ("helpful", 1 / 4, False),
])  # fmt: skip
def test_critiques_are_kept_at_the_counts_of_appendix_b(role, reward, kept):
    assert len(chosen([row(role, reward, "shown")], role, PAPER[role])) == kept
    exclusive = RoleTraining(threshold=PAPER[role].threshold, inclusive=False)
    assert chosen([row(role, PAPER[role].threshold, "shown")], role, exclusive) == []  # equation 5


def test_of_the_prover_three_kinds_are_kept_and_none_of_an_earlier_iteration():
    labels = ["right", "wrong", "resisted", "corrected", "kept", "misled", "unclear", "not_corrected"]
    rows = [row(label=label, completion=label) for label in labels]
    assert [r["label"] for r in chosen(rows, "prover", PAPER["prover"])] == ["right", "resisted", "corrected"]
    assert chosen(rows, "helpful", PAPER["helpful"]) == []  # another role's
    before = [row(completion="a"), row(completion="b", prompt='"q"', shown="b'")]
    new = [
        row(completion="a"), row(completion="a", prompt='"q"'), row(completion="c", prompt='"q"', shown="b'"),
        row(completion="a", rejected="z", before=""),
    ]  # fmt: skip
    assert unseen(new, before) == [new[1], new[3]] and unseen(new, []) == new


@pytest.mark.parametrize(("role", "rewards", "kept"), [
    ("misleading", (3 / 4, 1 / 4), False),  # 4 of 8 revisions were misled, below .75
    ("misleading", (1 / 4, 3 / 4), False),
    ("misleading", (3 / 4, 3 / 4), True),
    ("misleading", (4 / 4, 2 / 4), True),  # 6 of 8
    ("misleading", (4 / 4, 1 / 4), False),  # 5 of 8
    ("helpful", (1 / 4, 3 / 4), True),  # 4 of 8 corrected
    ("helpful", (0, 3 / 4), False),  # 3 of 8
])  # fmt: skip
def test_copies_of_a_critique_are_one_with_all_of_their_revisions(role, rewards, kept):
    """Appendix B counts per (question, solution, critique). The prompt of a critique holds question and solution."""
    rows = [row(role, reward, "shown", "the 3 is wrong") for reward in rewards]
    assert [r["reward"] for r in chosen(rows, role, PAPER[role])] == ([sum(rewards) / 2] if kept else [])
    parts = [{**r, "completion": f"Step {i}. {r['completion']}", "shown": r["completion"]} for i, r in enumerate(rows)]
    assert len(chosen(parts, role, PAPER[role])) == kept  # other words before it, the same critique
    apart = [{**r, "prompt": f'"answer {i}"'} for i, r in enumerate(rows)]
    assert len(chosen(apart, role, PAPER[role])) == sum(r >= PAPER[role].threshold for r in rewards)


def test_loops_empty_texts_and_repetitions_are_left_out():
    loop = "so we add the same number once more now. "  # 41 characters
    rows = [row(completion=c) for c in ("a", "a", " ", loop * 5)] + [row(completion="a", prompt='"q"')]
    assert [(r["prompt"], r["completion"]) for r in chosen(rows, "prover", RoleTraining())] == [
        ('"p"', "a"),
        ('"q"', "a"),
    ]
    assert not PAPER["helpful"].loops(loop * 5) and PAPER["prover"].loops(loop * 5)  # the authors' code: the prover's
    stretch = "".join(chr(97 + i) if i < 26 else chr(39 + i) for i in range(40))  # 40 different characters
    between = [f"<{i}>" for i in range(5)]
    assert is_loop("".join(stretch + gap for gap in between))
    assert not is_loop("".join(stretch + gap for gap in between[:4]) + stretch[:39] + "." * 9)
    long = "".join(chr(200 + i) for i in range(128))
    assert is_loop(f"{long} and {long}") and not is_loop(f"{long} and {long[:127]}")
    assert not is_loop("ha" * 99) and is_loop("ha" * 128)  # 198 characters hold no five stretches side by side
    assert not is_loop("")


def test_no_label_has_more_rows_than_the_rarest_or_than_asked_for():
    rows = [row(label=label, completion=str(i)) for i, label in enumerate("a" * 9 + "b" * 4 + "c" * 6)]
    found = balanced(rows, RoleTraining(balance=100), 0)
    assert Counter(r["label"] for r in found) == {"a": 4, "b": 4, "c": 4}
    assert found == [r for r in rows if r in found] and found == balanced(rows, RoleTraining(balance=100), 0)
    assert Counter(r["label"] for r in balanced(rows, RoleTraining(balance=2), 0)) == {"a": 2, "b": 2, "c": 2}
    assert balanced(rows, RoleTraining(balance=100), 1) != found  # another lot
    none = [r for r in rows if r["label"] != "b"]  # what is not there at all cuts nothing
    assert Counter(r["label"] for r in balanced(none, RoleTraining(balance=100), 0)) == {"a": 6, "c": 6}
    assert balanced(rows, RoleTraining(), 0) == rows and balanced([], RoleTraining(balance=3), 0) == []


def test_files_are_read_as_they_were_written_and_a_missing_one_is_one_sentence(tmp_path):
    rows = [row(reward=0.1 + 0.2, completion="ü\n"), row("helpful", label="shown")]
    write(tmp_path / "a.parquet", rows)
    write(tmp_path / "none.parquet", [])
    assert read(tmp_path / "a.parquet", ("role",)) == [{"role": "prover"}, {"role": "helpful"}]
    assert read(tmp_path / "a.parquet") == rows and read(tmp_path / "none.parquet") == []
    with pytest.raises(DataError, match=r"b.parquet' is not there; put back .* and their lines of iterations.jsonl"):
        read(tmp_path / "b.parquet")
    (tmp_path / "c.jsonl").write_text('{"role": "prover"}\n')  # as `eval --task self_correction --add` may name
    with pytest.raises(DataError, match=r"c.jsonl' cannot be read as Parquet \(Parquet magic bytes not found"):
        read(tmp_path / "c.jsonl")


def test_roles_of_a_file_change_the_papers_settings_and_may_write_numbers_as_yaml():
    found = IteratedSettings("x", '{"helpful": {"threshold": 0.25, "learning_rate": 1e-4, "labels": ["shown"]}}').kinds
    assert found["helpful"] == RoleTraining(
        8, 0.25, labels=("shown",), drop_loops=False, accumulate=False, epochs=2.0, learning_rate=(1e-4,)
    )
    assert list(found) == ["helpful"] and list(IteratedSettings("x").kinds) == ["prover", "helpful", "misleading"]
    # YAML 1.1 has no 5e-6 without a dot: it is the text '5e-6'.
    found = IteratedSettings("x", {"prover": {"learning_rate": ["5e-6", 1e-6], "epochs": "2"}}).kinds["prover"]
    assert (found.learning_rate, found.epochs) == ((5e-6, 1e-6), 2)


CHAT = [
    {"role": "user", "content": "What is 44 - 19?"},
    {"role": "assistant", "content": "It is 25."},
    {"role": "user", "content": "Please check."},
]
REVISION = row(prompt=json.dumps(CHAT), completion="So it is 35.", label="corrected")


def in_the_loss(tokenizer, ids):
    return tokenizer.decode([i for i, label in zip(ids["input_ids"], ids["labels"], strict=True) if label != -100])


def test_a_revision_alone_is_in_the_loss_and_answers_of_a_pair_end():
    tokenizer = make_tokenizer()
    masked = token_ids(tokenizer, REVISION, IteratedSettings("x"))
    assert in_the_loss(tokenizer, masked) == "So it is 35.<|im_end|>"
    tokenizer = make_tokenizer()
    pair = row(completion="35", before="", rejected="25")
    answers = token_ids(tokenizer, pair, IteratedSettings("x", algorithm="dpo"))
    said = [tokenizer.decode(answers[name]) for name in ("chosen_ids", "rejected_ids")]
    assert said == ["35<|im_end|>", "25<|im_end|>"]
    step = row(prompt='"44 19 = 25 :"', completion=" - 19", before="44", rejected=" + 19")
    steps = token_ids(tokenizer, step, IteratedSettings("x", algorithm="step_dpo"))
    assert [tokenizer.decode(steps[name]) for name in steps] == ["44 19 = 25 :44", " - 19", " + 19"]


def settings(max_steps=None, **prover):
    roles = {**paper_roles(), "prover": RoleTraining(max_steps=max_steps, **prover)}
    found = {**IteratedSettings(role_training=roles).to_dict(), "problems": [f"p{i}" for i in range(100)]}
    return json.loads(json.dumps(found))  # as the run folder has them


def difference(then, now, begun):
    return first_difference(comparable(then, begun), comparable(now, begun))


def test_a_setting_of_a_role_is_named_with_its_values_and_a_larger_budget_is_no_other():
    assert difference(settings(), settings(), 2) is None
    said = difference(settings(learning_rate=[1e-3]), settings(learning_rate=[1e-4]), 0)
    assert said == ("role_training.prover.learning_rate", [0.001], [0.0001])
    then = settings()
    without = {**then, "role_training": {kind: then["role_training"][kind] for kind in ("prover", "helpful")}}
    assert difference(then, without, 1)[0] == "role_training.misleading"
    assert difference(settings([3, 5]), settings([3, 5, 7]), 2) is None
    assert difference(settings([3, 5]), settings([3, 6, 7]), 2) == ("role_training.prover.max_steps", [3, 5], [3, 6])
    assert difference(settings([3]), settings([3, 5]), 1) is None
    assert difference(settings([3]), settings([3, 5]), 2)  # iteration 2 took 3 steps too: the last value stands
