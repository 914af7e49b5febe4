# Tests: warm_starts/iterated/retrain.py, warm_starts/iterated/settings.py
"""What of a row is in the loss: tokens decoded by a chat tokenizer."""

import json

from tests.cli.stand_in import make_tokenizer
from tests.warm_starts.iterated.test_select import row

from countdown_selfplay.warm_starts.iterated import IteratedSettings
from countdown_selfplay.warm_starts.iterated.retrain import token_ids

CHAT = [
    {"role": "user", "content": "What is 44 - 19?"},
    {"role": "assistant", "content": "It is 25."},
    {"role": "user", "content": "Please check."},
]
REVISION = row(prompt=json.dumps(CHAT), completion="So it is 35.", label="corrected")


def in_the_loss(tokenizer, ids):
    return tokenizer.decode([i for i, label in zip(ids["input_ids"], ids["labels"], strict=True) if label != -100])


def test_the_first_turn_is_in_the_loss_if_it_is_asked_for_and_answers_of_a_pair_end():
    tokenizer = make_tokenizer()
    masked = token_ids(tokenizer, REVISION, IteratedSettings("x"))
    assert in_the_loss(tokenizer, masked) == "So it is 35.<|im_end|>"
    open_ = token_ids(tokenizer, REVISION, IteratedSettings("x", mask_first_turn=False))
    assert in_the_loss(tokenizer, open_) == "It is 25.<|im_end|>\nSo it is 35.<|im_end|>"
    assert open_["input_ids"] == masked["input_ids"]
    tokenizer = make_tokenizer()
    pair = row(completion="35", before="", rejected="25")
    answers = token_ids(tokenizer, pair, IteratedSettings("x", algorithm="dpo"))
    said = [tokenizer.decode(answers[name]) for name in ("chosen_ids", "rejected_ids")]
    assert said == ["35<|im_end|>", "25<|im_end|>"]
    step = row(prompt='"44 19 = 25 :"', completion=" - 19", before="44", rejected=" + 19")
    steps = token_ids(tokenizer, step, IteratedSettings("x", algorithm="step_dpo"))
    assert [tokenizer.decode(steps[name]) for name in steps] == ["44 19 = 25 :44", " - 19", " + 19"]
