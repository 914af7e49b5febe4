# Tests: worlds/math_qa.py
"""`math_qa` plays propose-and-solve on a fixed pool of questions: real samples, math-verify's verdicts, real steps."""

from datasets import Dataset
from tests.trainer.conftest import equal, make_trainer, rounds, weights
from transformers import AutoTokenizer

from countdown_selfplay.countdown import CountdownDomain, generate_problems
from countdown_selfplay.tiny import TINY_MODEL_PATH
from countdown_selfplay.worlds.math_qa import MathQA


class Bare(MathQA):
    """The tiny model writes no box: what it says is the answer."""

    def verify(self, texts, problems):
        return super().verify([f"\\boxed{{{text}}}" for text in texts], problems)


def test_math_qa_plays_propose_and_solve_on_a_fixed_pool(tmp_path):
    """Questions in the tiny model's words, 3 5 7 = 22, with the answer 22: 3 * 5 + 7 is right by its value."""
    made = generate_problems(32, CountdownDomain.tiny().spec, seed=2, split="train")
    rows = [{"question": " ".join(map(str, p.numbers)) + f" = {p.target}", "answer": str(p.target)} for p in made]
    tokenizer = AutoTokenizer.from_pretrained(TINY_MODEL_PATH, padding_side="left")
    tokenizer.chat_template = "{{ bos_token }}{{ messages[0]['content'].split('Question: ')[1] }} :"
    domain = Bare(workers=1, deadline=600.0)
    parts = {"domain": domain, "train_dataset": Dataset.from_list(rows), "processing_class": tokenizer}
    trainer = make_trainer(tmp_path / "run", trainer=parts, conjecturer_players=0, max_steps=1)
    before = weights(trainer)
    try:
        trainer.train()
        assert domain._pool is not None and domain._pool.counts["checked"] > 0
    finally:
        if domain._pool is not None:
            domain._pool.close()
    (line,) = rounds(tmp_path / "run")
    assert 0 < line["prover/correct_rate"] < 1 and line["prover/trained_samples"] == 32  # 8 questions, 4 answers
    assert line["prover/unchecked_rate"] == 0
    assert not equal(weights(trainer), before)
