# Tests: training/parts.py, evaluation/sampling.py
"""The token that ends a chat turn is one and the same in the warm start, in training and in evaluation."""

import pytest
from tokenizers import AddedToken

from countdown_selfplay.evaluation.sampling import demonstration_ids, end_token_ids
from countdown_selfplay.tiny import load_tiny_model

CHAT = {"prover_prompt": "countdown_3to4", "conjecturer_prompt": "json", "max_completion_length": 8}


def chat_tokenizer(special):
    """The tiny tokenizer with a chat template whose turns end with an added token, as in Llama 3: its end of text is
    another token, and `special` is said of the added token alone."""
    model, tokenizer = load_tiny_model()
    tokenizer.add_tokens([AddedToken("<|turn_end|>", special=special)])
    model.resize_token_embeddings(len(tokenizer))
    tokenizer.chat_template = "{% for m in messages %} {{ m.content }} <|turn_end|>{% endfor %}"
    return model, tokenizer, tokenizer.convert_tokens_to_ids("<|turn_end|>")


def test_an_end_of_turn_that_is_only_a_special_added_token_ends_every_text(build):
    model, tokenizer, turn = chat_tokenizer(special=True)
    assert turn not in tokenizer.all_special_ids  # the case at hand
    taught = demonstration_ids(tokenizer, [{"role": "user", "content": "1"}], [{"role": "assistant", "content": "2"}])
    assert taught["labels"][-1] == turn
    assert end_token_ids(model, tokenizer, chat=True) == [tokenizer.eos_token_id, turn]
    trainer = build(model=model, trainer={"processing_class": tokenizer}, **CHAT)
    assert trainer.eos_token_ids == [tokenizer.eos_token_id, turn]
    with trainer.rollouts.acting_as("prover", 4):
        assert set(trainer.generation_config.eos_token_id) == {tokenizer.eos_token_id, turn}


@pytest.mark.parametrize("chat, special", [(False, True), (True, False)])
def test_a_plain_text_and_a_word_after_the_turn_end_with_the_end_of_text(chat, special):
    model, tokenizer, _ = chat_tokenizer(special)
    assert end_token_ids(model, tokenizer, chat) == [tokenizer.eos_token_id]
