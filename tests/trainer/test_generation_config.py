# Tests: evaluation/sampling.py, training/parts.py
"""A model's own generation_config bends no rollout and no evaluation, and is saved as it was."""

import functools
import json
from pathlib import Path

import pytest
from datasets import Dataset
from peft import LoraConfig
from tokenizers import AddedToken
from tools.make_tiny_model.figures import held_out_problems
from transformers import GenerationConfig

from countdown_selfplay.evaluation.sampling import demonstration_ids, end_token_ids
from countdown_selfplay.policies.decode import neutral_generation
from countdown_selfplay.tiny import TINY_SPEC, load_tiny_model

from .conftest import make_trainer, on_sample

LORA = LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
BENT = dict(  # each of them changes what is sampled, or fails, where it is filled in
    do_sample=True, num_beams=2, min_p=0.3, typical_p=0.5, epsilon_cutoff=0.1, repetition_penalty=1.5,
    no_repeat_ngram_size=2, min_new_tokens=10, suppress_tokens=[20], bad_words_ids=[[21]], max_time=1e-4,
    sequence_bias=[[[20], -10.0]], exponential_decay_length_penalty=(2, 1.5), forced_eos_token_id=2, top_k=3,
)  # fmt: skip


def played(build, folder, own, sharing="full", **changes):
    """Texts of one round, pass@1, and the trainer; the model's own generation_config has the fields `own`."""
    model, tokenizer = load_tiny_model()
    for name, value in own.items():
        setattr(model.generation_config, name, value)
    rows = [{"nums": list(p.numbers), "target": p.target} for p in held_out_problems(TINY_SPEC)[:8]]
    changes = {"num_generations_eval": 4, **changes}
    extra = {"processing_class": tokenizer, "eval_dataset": Dataset.from_list(rows)}
    extra |= {"peft_config": LORA} if sharing == "lora" else {}
    trainer = build(folder, model=model, policy_sharing=sharing, max_steps=1, trainer=extra, **changes)
    texts = []
    on_sample(trainer, lambda role, found: texts.append(found.texts))
    trainer.train()
    return texts, trainer.evaluate()["eval_pass@1"], trainer


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """Texts and pass@1 of a round of a model without settings, in each way of sharing weights."""
    return functools.cache(lambda sharing: played(make_trainer, tmp_path_factory.mktemp(sharing), {}, sharing)[:2])


@pytest.mark.parametrize("sharing", ["full", *(pytest.param(s, marks=pytest.mark.matrix) for s in ("lora", "tied"))])
def test_rollouts_and_evaluation_are_those_of_a_model_without_settings_of_its_own(build, plain, sharing):
    texts, rate, trainer = played(build, "bent", BENT, sharing)
    assert (texts, rate) == plain(sharing)
    config = trainer.policies.module.generation_config
    assert {name: getattr(config, name) for name in BENT} == BENT


def test_a_setting_of_the_run_acts_on_purpose(build, plain):
    plain_texts, _ = plain("full")
    assert played(build, "field", {}, min_p=0.3)[0] != plain_texts
    assert played(build, "kwargs", {}, generation_kwargs={"suppress_tokens": [20]})[0] != plain_texts


def test_exports_hold_the_models_own_settings(build):
    _, _, trainer = played(build, "run", {"repetition_penalty": 1.5, "do_sample": True, "min_p": 0.3})
    for folder in trainer.exports.write(Path(trainer.args.output_dir) / "exports"):
        saved = json.loads((folder / "generation_config.json").read_text())
        assert (saved["repetition_penalty"], saved["min_p"], saved["do_sample"]) == (1.5, 0.3, True)


def test_the_settings_are_back_after_an_error():
    class Model:
        generation_config = GenerationConfig(min_p=0.3, eos_token_id=[2, 5], pad_token_id=0, mine="custom")

    before = Model.generation_config.to_dict()
    with pytest.raises(KeyError), neutral_generation(Model):
        config = Model.generation_config
        assert (config.min_p, config.eos_token_id, config.pad_token_id) == (None, [2, 5], 0)
        assert not hasattr(config, "mine")
        raise KeyError
    assert Model.generation_config.to_dict() == before


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
