# Tests: training/parts.py, policies/build.py, config/rules.py
"""A model, a tokenizer and a precision that do not fit are named in one sentence before a round is played."""

import logging

import pytest
import torch

from countdown_selfplay.errors import ConfigError
from countdown_selfplay.policies.build import _one_tokenizer
from countdown_selfplay.training.parts import warn_of_lost_steps
from tests.zoo.families import WORDS, tokenizer


def test_tokenizers_of_one_size_with_other_words_are_told_apart(tmp_path):
    swapped = {word: i for i, word in enumerate([*WORDS[:6], *WORDS[6:][::-1]])}
    tokenizer().save_pretrained(tmp_path / "a")
    tokenizer().save_pretrained(tmp_path / "b")
    other = (tmp_path / "c" / "tokenizer.json").parent
    tokenizer().save_pretrained(other)
    text = (other / "tokenizer.json").read_text().replace('"a": 16', f'"a": {swapped["a"]}')
    (other / "tokenizer.json").write_text(text)
    first, same, unlike = (str(tmp_path / name) for name in "abc")
    assert _one_tokenizer([first, same], False) and not _one_tokenizer([first], False)
    with pytest.raises(ConfigError, match=r"must share one tokenizer.*'a'"):
        _one_tokenizer([first, unlike], False)
    assert not _one_tokenizer([first, str(tmp_path)], False)  # sizes are compared where no tokenizer lies


class Weights:
    """Half of the weights are 1, whose neighbours in bfloat16 are 2^-8 below and 2^-7 above; half are 0."""

    weight_names, module = ("one",), torch.nn.Linear(1, 1)

    def named_parameters(self, name):
        return [("weight", torch.tensor([1.0] * 6 + [0.0] * 4).bfloat16())]


@pytest.mark.parametrize(("rate", "warned"), [(1e-6, True), (2.1e-3, False)])  # a step of 2^-9 = 1.95e-3 moves a 1
def test_steps_that_round_away_are_named_by_their_share(rate, warned, caplog):
    with caplog.at_level(logging.WARNING):
        warn_of_lost_steps(Weights(), rate)
    assert ("moves about 40% of them" in caplog.text) == warned
