# Tests: countdown/domain.py, countdown/problem.py, training/evaluation.py
"""Before a run in moves the prover is asked for a few first moves: one that has never seen the format is refused."""

import re

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import BPE
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

from countdown_selfplay.countdown import CountdownDomain, Problem
from countdown_selfplay.errors import ConfigError
from countdown_selfplay.training.evaluation import _joined, _refusal

from .conftest import equal, optimizer_state, ran, rounds, weights
from .test_moves import MODELS, build


@pytest.fixture(scope="module")
def untaught(tmp_path_factory):
    """The ladder's prover with random weights."""
    folder = str(tmp_path_factory.mktemp("untaught"))
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(MODELS["prover"])).save_pretrained(folder)
    AutoTokenizer.from_pretrained(MODELS["prover"]).save_pretrained(folder)
    return folder


def models(monkeypatch, prover):
    monkeypatch.setitem(MODELS, "prover", prover)


def test_a_model_that_has_never_seen_the_format_is_refused_before_anything_is_played(untaught, tmp_path, monkeypatch):
    models(monkeypatch, untaught)
    (tmp_path / "metrics.jsonl").write_text("{}\n")  # of a run that was here before: it is left where it is
    trainer = build(tmp_path, max_steps=1)
    with pytest.raises(ConfigError) as refused:
        trainer.train()
    said = str(refused.value)
    assert "\n" not in said and re.match(
        r"The prover has not learned to answer in moves: of its first 32 moves, on problems of rung 2, none is "
        r"legal\. It wrote '.*' \((grammar|empty)\); expected is one move `a op b = c` and nothing after it, such as "
        r"'6 \* 4 = 24'\. Warm-start it with `countdown-selfplay sft --answers moves` .* format_probe to 0 ",
        said,
    )
    assert trainer.counts.rounds == 0 and (tmp_path / "metrics.jsonl").read_text() == "{}\n"


def test_the_ladders_prover_passes_and_the_trajectory_is_that_without_a_probe(tmp_path):
    with_, without = (build(tmp_path / str(n), max_steps=2, format_probe=n) for n in (16, 0))
    for trainer in (with_, without):
        trainer.train()
    assert with_.evaluator.format_probed and not without.evaluator.format_probed
    assert equal(weights(with_), weights(without)) and equal(optimizer_state(with_), optimizer_state(without))
    assert rounds(tmp_path / "16") == rounds(tmp_path / "0") and with_.counts == without.counts


def test_a_resume_and_a_second_call_are_not_probed(untaught, tmp_path, monkeypatch):
    trainer = ran(build(tmp_path, max_steps=2, save_strategy="steps", save_steps=1))
    resumed = ran(build(tmp_path, max_steps=3, save_strategy="steps", save_steps=1), True)
    assert not resumed.evaluator.format_probed and resumed.counts.rounds == 3
    monkeypatch.setattr(trainer.evaluator, "_first_moves", None)  # sampling would now fail
    trainer.evaluator.probe_format()


def test_a_legal_move_goes_on_or_leaves_one_number():
    """Of 3 and 4 for 12 a move ends the episode: 3 * 4 = 12 is right, 3 + 4 = 7 legal; the others are no moves."""
    domain, problem = CountdownDomain.ladder(), Problem((3, 4), 12)
    texts = ["3 * 4 = 12", "3 + 4 = 7", "3 + 4 = 8", "3 - 4 = 1", "5 + 4 = 9", "3 + 4"]
    verdicts = domain.moved(texts, [problem] * 6, [[3, 4]] * 6)
    assert [domain.was_legal(v) for v in verdicts] == [True, True, False, False, False, False]
    assert domain.moved(["3 * 4 = 12"], [Problem((3, 4, 2), 24)], [[3, 4, 2]]) == [[12, 2]]


@pytest.mark.parametrize(("merges", "joined"), [([("4", " ")], True), ([("2", "4")], False)])
def test_a_tokenizer_that_joins_target_and_move_is_named_by_the_refusal(merges, joined):
    """`3 8 : 24` ends in `4`, which with the blank before a move is one token of the first tokenizer: `2`, `4 `."""
    signs = [*"0123456789 :", *map("".join, merges)]
    made = Tokenizer(BPE({sign: i for i, sign in enumerate(signs)}, merges))
    assert _joined(PreTrainedTokenizerFast(tokenizer_object=made), "3 8 : 24") is joined
    (verdict,) = CountdownDomain.ladder().moved(["3"], [Problem((3, 8), 24)], [[3, 8]])
    said = _refusal("prover", 2, ["3"], [verdict], "one move", joined)
    assert ("Its tokenizer makes one token of the prompt's end and a number after it; take a chat" in said) is joined
