# Tests: evaluation/sampling.py
"""Sampling on tiny random Qwen2 models: reproducible, private, and with every way a text can end."""

import copy

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from tokenizers.processors import TemplateProcessing
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from countdown_selfplay.evaluation.sampling import end_token_ids, sample_texts

WORDS = ["<pad>", "<s>", "</s>", "<|im_end|>", "+", "-", "=", ":", *map(str, range(12))]
PROMPTS = ["1 2 = 3 :", "1 2 3 4 5 = 9 :", "7 :", "1 2 = 4 :"]


@pytest.fixture(scope="module")
def tokenizer():
    words = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<pad>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="<pad>", bos_token="<s>", eos_token="</s>", padding_side="left"
    )


def build(seed=0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        config = Qwen2Config(
            vocab_size=len(WORDS), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
            num_key_value_heads=2, max_position_embeddings=64, tie_word_embeddings=True, pad_token_id=0,
            bos_token_id=1, eos_token_id=2,
        )  # fmt: skip
        return Qwen2ForCausalLM(config)


@pytest.fixture(scope="module")
def model():
    return build()


class Scripted:
    """A `generate` that continues every row with the same ids, for what a random model does too rarely."""

    device = torch.device("cpu")
    training = False

    def __init__(self, *continuations):
        self.continuations = continuations
        self.calls = []

    def eval(self):
        self.training = False

    def train(self, mode=True):
        self.training = mode

    def generate(self, input_ids, attention_mask, generation_config, **kwargs):
        self.calls.append({"config": generation_config, "rows": len(input_ids), "mask": attention_mask, **kwargs})
        width = max(map(len, self.continuations))
        rows = [self.continuations[i % len(self.continuations)] for i in range(len(input_ids))]
        return torch.cat([input_ids, torch.tensor([row + [0] * (width - len(row)) for row in rows])], 1)


def sample(model, tokenizer, prompts=PROMPTS, n=4, **changes):
    return sample_texts(model, tokenizer, prompts, n, **{"max_new_tokens": 6, "seed": 5, **changes})


def test_there_are_n_texts_for_every_prompt_of_the_seed_by_the_models_distribution(model, tokenizer):
    texts, truncated = sample(model, tokenizer)
    assert [len(row) for row in texts] == [len(row) for row in truncated] == [4, 4, 4, 4]
    assert all(isinstance(text, str) for row in texts for text in row)
    assert sample(model, tokenizer, prompts=[]) == ([], [])
    first = sample(model, tokenizer)
    torch.rand(7)
    sample(model, tokenizer, seed=6)
    assert sample(model, tokenizer) == first
    assert sample(model, tokenizer, seed=6) != first
    torch.manual_seed(11)
    before = torch.get_rng_state()
    sample(model, tokenizer)
    assert torch.equal(torch.get_rng_state(), before)
    # One token after one prompt, 4,000 times, against the softmax at temperature 0.7 computed by hand; a mean absolute
    # deviation of a share p over N draws is about sqrt(2 p (1-p) / (pi N)): here at most 0.0064 for p = 0.5.
    ids = torch.tensor([tokenizer("7 :")["input_ids"]])
    with torch.no_grad():
        logits = model(ids).logits[0, -1] / 0.7
    expected = logits.softmax(-1)
    (texts,), _ = sample(model, tokenizer, ["7 :"], 4000, temperature=0.7, max_new_tokens=1, batch_size=1500)
    seen = {word: texts.count(word) / 4000 for word in WORDS[4:]}
    for i, word in enumerate(WORDS[4:], start=4):
        assert seen[word] == pytest.approx(expected[i].item(), abs=0.03)


def test_padding_batch_mates_and_the_models_own_config_change_no_text(model, tokenizer):
    together, _ = sample(model, tokenizer, n=1, temperature=0)
    alone = [sample(model, tokenizer, [prompt], 1, temperature=0)[0][0] for prompt in PROMPTS]
    assert together == alone
    assert sample(model, tokenizer, n=3, temperature=0, batch_size=5)[0] == [row * 3 for row in together]
    plain, bent = build(), build()
    bent.generation_config = GenerationConfig(
        pad_token_id=0, eos_token_id=2, do_sample=True, repetition_penalty=5.0, top_k=1, min_p=0.9, temperature=0.01,
        no_repeat_ngram_size=1, min_new_tokens=6, min_length=20, num_return_sequences=2, suppress_tokens=[9],
        max_time=1e-4,
    )  # fmt: skip
    assert sample(bent, tokenizer) == sample(plain, tokenizer)
    assert sample(bent, tokenizer, temperature=0) == sample(plain, tokenizer, temperature=0)


@pytest.mark.parametrize("mode", [True, False])
def test_the_mode_of_every_submodule_is_put_back(tokenizer, mode):
    model = build().train(mode)
    model.model.layers[0].train(not mode)
    before = [module.training for module in model.modules()]
    sample(model, tokenizer)
    assert [module.training for module in model.modules()] == before


def test_a_text_ends_at_the_first_end_token_of_all_that_the_model_has_and_is_truncated_without(tokenizer):
    model = Scripted([9, 4, 10, 2, 8, 8], [9, 4, 10, 8, 8, 8])
    assert sample(model, tokenizer, ["7 :"], 2) == ([["1 + 2", "1 + 2 0 0 0"]], [[False, True]])
    assert sample(Scripted([9, 9, 9, 9, 9, 2]), tokenizer, ["7 :"], 1)[1] == [[False]]
    model = Scripted([9, 3, 8])
    model.generation_config = GenerationConfig(eos_token_id=[2, 3])
    assert sample(model, tokenizer, ["7 :"], 1, max_new_tokens=3) == ([["1"]], [[False]])
    assert model.calls[0]["config"].eos_token_id == [2, 3]


def test_a_chat_also_ends_with_its_end_of_turn_and_padding_may_be_the_end_token(tokenizer):
    chat = copy.deepcopy(tokenizer)
    chat.add_special_tokens({"additional_special_tokens": ["<|im_end|>"]})
    chat.chat_template = "{% for m in messages %} {{ m.content }} <|im_end|>{% endfor %}"
    model = Scripted([9, 3, 8])
    assert end_token_ids(model, chat, chat=False) == [2]
    texts, _ = sample(model, chat, [[{"role": "user", "content": "7"}]], 1, max_new_tokens=3)
    assert model.calls[0]["config"].eos_token_id == [2, 3]
    assert texts == [["1"]]
    bare = copy.deepcopy(tokenizer)
    bare.pad_token = None
    model = Scripted([8, 2])
    sample(model, bare)
    assert model.calls[0]["config"].pad_token_id == 2


def test_a_stop_string_ends_a_real_generation_and_is_no_truncation(model):
    # Characters as tokens, as many as the model has: transformers looks for stop strings in joined token texts.
    letters = Tokenizer(models.WordLevel({c: i for i, c in enumerate("~^$abcdefghijklmnopq")}, unk_token="~"))
    letters.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    letters.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=letters, pad_token="~", eos_token="$")
    hot = {"temperature": 5.0, "max_new_tokens": 8, "seed": 1}
    ((free,),), free_cut = sample(model, tokenizer, ["abc"], 1, **hot)
    assert len(set(free)) > 4 and free_cut == [[True]], "the text must be varied and not end by itself"
    stop = free[3:5]
    stopped, cut = sample(model, tokenizer, ["abc"], 1, **hot, stop_strings=[stop])
    assert free.index(stop) + 2 < 8
    assert (stopped, cut) == ([[free[: free.index(stop) + 2]]], [[False]])


@pytest.mark.gpu
def test_the_devices_generator_is_bit_identical_afterwards(tokenizer):
    model = build().cuda()
    torch.manual_seed(11)
    before, before_cpu = torch.cuda.get_rng_state(), torch.get_rng_state()
    first = sample(model, tokenizer)
    assert torch.equal(torch.cuda.get_rng_state(), before) and torch.equal(torch.get_rng_state(), before_cpu)
    torch.rand(5, device="cuda")
    assert sample(model, tokenizer) == first
    assert sample(model, tokenizer, seed=6) != first
