# Tests: warm_starts/iterated/driver.py
"""SmolLM2-135M plays two iterations of `math_qa`: formats, masks and lineage; nothing is claimed about learning.

The model's folder is in SMOLLM2, or the model is in the hub's cache; else the test is skipped."""

import json
import os

import pytest
from transformers import AutoTokenizer

from countdown_selfplay.contract.critique import MARKER, NOT_CRITICAL
from countdown_selfplay.games.critic_discernment import CriticDiscernment
from countdown_selfplay.warm_starts.iterated import IteratedSelfPlay, IteratedSettings, RoleTraining, select
from countdown_selfplay.warm_starts.iterated.retrain import token_ids
from countdown_selfplay.worlds.math_qa import MathQA

GSM8K = [
    {"question": "Ann has 2 apples and buys 3 more. How many has she?", "answer": "2 + 3 = <<2+3=5>>5.\n#### 5"},
    {"question": "A box holds 4 pens. How many do 6 boxes hold?", "answer": "4 * 6 = <<4*6=24>>24.\n#### 24"},
]


class Lenient(MathQA):
    """At 64 tokens the model never ends a critique in the paper's form: whatever it says is shown as one."""

    def read_critique(self, text, answer):
        return super().read_critique(text, answer) or (f"{MARKER} {text.strip()}" if text.strip() else None)


@pytest.fixture(scope="module")
def smollm2():
    given = os.environ.get("SMOLLM2")
    if given is None:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import LocalEntryNotFoundError

        try:
            given = snapshot_download("HuggingFaceTB/SmolLM2-135M-Instruct", local_files_only=True)
        except LocalEntryNotFoundError:
            pytest.skip("SmolLM2-135M-Instruct is not here; name its folder in SMOLLM2")
    return given


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_smollm2_plays_two_iterations_of_mathematics(smollm2, tmp_path):
    (tmp_path / "gsm8k.jsonl").write_text("".join(json.dumps(row) + "\n" for row in GSM8K))
    domain = Lenient(workers=1)
    problems = [domain.problem(json.loads(text)) for text in (tmp_path / "gsm8k.jsonl").read_text().splitlines()]
    every = dict(learning_rate=(1e-5,), batch_size=(2,), threshold=0.0)
    settings = IteratedSettings(
        str(tmp_path / "run"),
        {role: RoleTraining(n, **every) for role, n in (("prover", 2), ("helpful", 1), ("misleading", 1))},
        chunk=1, max_completion_length=64, per_device_train_batch_size=2, per_device_eval_batch_size=8,
    )  # fmt: skip
    game = CriticDiscernment(eta=0.5, revisions=1, first_credit="answer")
    # what the budget of 64 tokens cut is not trained on, so that little may be left; at least the play is whole
    run = IteratedSelfPlay(game, domain, smollm2, problems, settings)
    log = run.run()
    assert [(line["iteration"], line["phase"]) for line in log] == [
        (t, p) for t in (1, 2) for p in ("play", *["train"] * 3)
    ]
    rows = [
        row
        for t in (1, 2)
        for c in (0, 1)
        for row in select.read(tmp_path / "run" / f"iteration-{t}" / f"played-0000{c}.parquet")
    ]
    keys = {domain.key(problem) for problem in problems}
    assert rows and {row["problem"] for row in rows} <= keys
    for row in rows:
        prompt, first = json.loads(row["prompt"]), row["turn"] == 0
        assert row["weights"] in {smollm2, f"iteration-{row['iteration'] - 1}/{row['role']}"}
        assert row["label"] in {"right", "wrong"} if first else row["label"] not in {"right", "wrong"}
        if first:
            assert prompt[0]["content"].startswith("Solve the following math problem efficiently and clearly:")
        elif row["turn"] == 1:
            assert [message["role"] for message in prompt] == ["user", "assistant", "user"]
            assert MARKER in prompt[2]["content"] and NOT_CRITICAL in prompt[2]["content"]
        else:
            assert "[Wrong Answer]" in prompt[0]["content"]
    masks(smollm2, rows, settings)


def masks(path, rows, settings):
    """The loss is on the completion and its end token."""
    tokenizer = AutoTokenizer.from_pretrained(path)
    for row in rows:
        ids = token_ids(tokenizer, row, settings)
        kept = [i for i, label in zip(ids["input_ids"], ids["labels"], strict=True) if label != -100]
        assert tokenizer.decode(kept, skip_special_tokens=True).strip() == row["completion"].strip()
        assert kept[-1] == tokenizer.eos_token_id and ids["labels"][0] == -100
