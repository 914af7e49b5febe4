# Tests: policies/decode.py, policies/forward.py
"""The decoding loop without idle rows against transformers' own: equal seeds give equal tokens."""

import gc
import weakref
from types import SimpleNamespace

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    AutoModelForCausalLM,
    GenerationConfig,
    GPT2Config,
    GPT2LMHeadModel,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedTokenizerFast,
    Qwen3ForCausalLM,
    masking_utils,
)

from countdown_selfplay._transformers import cache_name
from countdown_selfplay.errors import ConfigError, GenerationError
from countdown_selfplay.policies import decode, forward
from countdown_selfplay.policies.decode import common_run, common_start, looped, without_idle_rows
from countdown_selfplay.policies.forward import scored_at
from countdown_selfplay.tiny import TINY_MODEL_PATH, load_tiny_model
from tests.trainer.test_speed import prompts
from tests.zoo.families import FEW, built, folder
from tests.zoo.play import wrong


def tiny(dtype=torch.float64):
    """In double precision, where the rounding of another batch size cannot change a token."""
    return AutoModelForCausalLM.from_pretrained(str(TINY_MODEL_PATH), dtype=dtype)


def asked(ids, mask, **settings):
    settings = dict(do_sample=True, top_k=0, pad_token_id=0, eos_token_id=1) | settings
    return dict(input_ids=ids, attention_mask=mask, generation_config=GenerationConfig(max_new_tokens=8, **settings))


def questions(repeats):
    """Problems that the tiny model answers, with answers of several lengths at temperature 1; its end token."""
    tokenizer = load_tiny_model()[1]
    tokenizer.padding_side = "left"
    texts = ["7 7 1 = 49 :", "1 2 3 = 6 :", "12 11 10 = 33 :"]
    batch = tokenizer([text for text in texts for _ in range(repeats)], return_tensors="pt", padding=True)
    return batch["input_ids"], batch["attention_mask"], tokenizer.eos_token_id


def both(model, given, seed=0):
    """What transformers' loop samples, and ours."""
    torch.manual_seed(seed)
    plain = model.generate(**given)
    torch.manual_seed(seed)
    arguments = without_idle_rows(model, given)
    assert "custom_generate" in arguments
    return plain, model.generate(**arguments)


def test_runs_of_equal_prompts_share_their_greatest_common_divisor():
    ids, mask = prompts([4, 6, 2], 4)
    assert common_run(ids, mask) == 4
    order = [0, 0, 0, 0, 4, 4, 8, 8, 8, 8, 8, 8]  # runs of 4, 2 and 6
    assert common_run(ids[order], mask[order]) == 2
    assert common_run(ids[::4], mask[::4]) == 1
    assert common_run(ids[:4], mask[:4]) == 4  # one prompt: the whole batch


@pytest.mark.parametrize(
    "settings", [{}, dict(do_sample=False), dict(temperature=0.7, top_p=0.9, repetition_penalty=1.1)]
)
@pytest.mark.parametrize("repeats", [1, 4])
def test_equal_seeds_give_the_tokens_of_transformers_own_loop(settings, repeats):
    model, (ids, mask, end) = tiny(), questions(repeats)
    for seed in range(4):
        plain, ours = both(model, asked(ids, mask, eos_token_id=end, **settings), seed)
        assert torch.equal(plain, ours)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("shortest", [1, 100])  # tokens of a shared beginning that is read in a pass of its own
def test_the_cache_is_in_the_type_of_autocast_and_scores_keep_their_bits(attention, shortest, monkeypatch):
    model, (ids, mask, end) = tiny(torch.float32), questions(4)
    model.set_attn_implementation(attention)
    narrow, found = decode._narrow, []
    for way in (narrow, lambda *_: None):
        caches, scores = [], []

        def kept(cache, device, way=way, caches=caches):
            caches.append(cache)
            way(cache, device)

        monkeypatch.setattr(decode, "_narrow", kept)
        torch.manual_seed(0)
        with torch.autocast("cpu", torch.bfloat16):
            given = decode._shortened(model, asked(ids, mask, eos_token_id=end), shortest, scores.append)
            tokens = model.generate(**given)
        sizes = {t.element_size() for layer in caches[0].layers for t in (layer.keys, layer.values)}
        found.append((tokens, torch.cat([part for _, part in scores]), sizes))
    (ours, our_scores, our_sizes), (plain, plain_scores, plain_sizes) = found
    assert our_sizes == {2} and 4 in plain_sizes
    assert torch.equal(ours, plain) and torch.equal(our_scores, plain_scores)


def test_a_cache_is_gone_with_its_turn_before_python_looks_for_cycles(monkeypatch):
    """Else a device holds the caches of several calls at once."""
    model, (ids, mask, end), narrow, caches = tiny(torch.float32), questions(2), decode._narrow, []
    monkeypatch.setattr(decode, "_narrow", lambda cache, _: [caches.append(weakref.ref(cache)), narrow(cache, _)])
    gc.disable()
    try:
        with torch.autocast("cpu", torch.bfloat16):
            model.generate(**without_idle_rows(model, asked(ids, mask, eos_token_id=end)))
        assert caches and not any(cache() for cache in caches)
    finally:
        gc.enable()


def test_stop_strings_end_rows_as_in_transformers_own_loop():
    """A token a character, where a stop string of two characters spans tokens."""
    letters = Tokenizer(models.WordLevel({chr(48 + i): i for i in range(129)}, unk_token="0"))
    letters.pre_tokenizer, letters.decoder = pre_tokenizers.Split("", "isolated"), decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=letters, pad_token="0", eos_token="1")
    model, (ids, mask, _) = tiny(), questions(8)
    free = both(model, asked(ids, mask))[0][:, ids.size(1) :]
    stop = tokenizer.decode(free[0, 1:3])  # row 0 samples it
    plain, ours = both(model, asked(ids, mask, stop_strings=[stop]) | {"tokenizer": tokenizer})
    assert torch.equal(plain, ours)
    assert not torch.equal(plain[:, ids.size(1) :], free[:, : plain.size(1) - ids.size(1)])


@pytest.mark.parametrize("lengths", [[5, 5], [3, 7, 1]])
def test_prompts_that_are_read_once_are_continued_as_if_read_per_row(lengths):
    model, (ids, mask) = tiny(), prompts(lengths, 4)
    plain, ours = both(model, asked(ids, mask))
    assert torch.equal(plain, ours)


def test_a_device_is_asked_every_16_tokens_which_rows_have_ended():
    cuda = torch.device("cuda")
    assert decode.pace(cuda, 1024, 512) == (16, 64, 0.25)  # sizes 512, 384, 320, ..., 64
    assert decode.pace(cuda, 24, 6) == (3, 1, 0.25)  # of a short turn an eighth
    assert decode.pace(torch.device("cpu"), 1024, 512) == (1, 1, 0.0)


@pytest.mark.parametrize(("every", "reads"), [(1, 8), (3, 1)])
def test_a_device_is_not_asked_at_every_token_whether_rows_are_padded(every, reads, monkeypatch):
    model, (ids, mask), whole, found = tiny(), prompts([3, 7, 1], 4), masking_utils._ignore_causal_mask_sdpa, []
    monkeypatch.setattr(decode, "pace", lambda *_: (every, 2, 0.25))
    plain, ours = both(model, asked(ids, mask))
    assert torch.equal(plain, ours) and ours.size(1) == ids.size(1) + 8
    monkeypatch.setattr(masking_utils, whole.__name__, lambda *a, **k: [found.append(a), whole(*a, **k)][1])
    model.generate(**without_idle_rows(model, asked(ids, mask)))
    assert len(found) == reads


@pytest.mark.parametrize("pace", [(1, 1, 0.0), (3, 2, 0.25)])
@pytest.mark.parametrize("settings", [{}, dict(do_sample=False)])
def test_rows_are_run_until_a_look_finds_their_end_and_no_token_behind_it_is_kept(settings, pace, monkeypatch):
    """Of 12 rows the three prompts are read once; then a row costs a step for each token but its last, or, looked at
    after every third token, until a multiple of 2 rows spares a quarter of the batch."""
    model, (ids, mask, end) = tiny(), questions(4)
    monkeypatch.setattr(decode, "pace", lambda *_: pace)
    plain, ours = both(model, asked(ids, mask, eos_token_id=end, **settings))
    assert torch.equal(plain, ours)
    rows, (every, block, spared) = [], pace
    read = model.model.register_forward_pre_hook
    read(lambda _, __, kwargs: rows.append(len(kwargs["input_ids"])), with_kwargs=True)
    torch.manual_seed(0)
    given = asked(ids, mask, eos_token_id=end, pad_token_id=end, **settings)
    found = model.generate(**without_idle_rows(model, given))
    lengths = [row.index(end) + 1 if end in row else len(row) for row in found[:, ids.size(1) :].tolist()]
    sizes = [12]
    for step in range(1, len(rows)):
        size = -(-sum(length > step for length in lengths) // block) * block
        sizes.append(size if step % every == 0 and size <= sizes[-1] * (1 - spared) else sizes[-1])
    assert rows == [3, *sizes[1:]] and max(lengths) == found.size(1) - ids.size(1)


@pytest.mark.parametrize("repeats", [1, 4])
@pytest.mark.parametrize("rest", [[5, 5], [3, 7, 1], [1, 1]])
def test_a_beginning_that_all_prompts_share_is_read_once(rest, repeats):
    """Rows of 40 equal tokens and a rest of their own: the padding goes behind the 40, what comes out is the same."""
    model, own = tiny(), prompts(rest, 1)[0]
    width = 40 + own.size(1)
    ids, mask = torch.zeros(len(rest), width, dtype=torch.long), torch.zeros(len(rest), width, dtype=torch.long)
    for row, length in enumerate(rest):
        ids[row, -40 - length :] = torch.cat([torch.arange(3, 43), own[row, -length:]])
        mask[row, -40 - length :] = 1
    assert common_start(ids, mask) == 40 and common_start(ids[:1], mask[:1]) == 0
    ids, mask = ids.repeat_interleave(repeats, 0), mask.repeat_interleave(repeats, 0)
    given = asked(ids, mask)
    shared = without_idle_rows(model, given)
    assert shared[cache_name()].get_seq_length() == 40
    assert shared["attention_mask"][:, :40].all() and torch.equal(shared["attention_mask"].sum(1), mask.sum(1))
    plain, ours = both(model, given)
    assert torch.equal(plain[:, width:], ours[:, width:])


def test_nothing_changes_where_generate_does_not_grow_a_plain_cache():
    model, (ids, mask) = tiny(), prompts([5, 5], 4)
    for settings in (dict(use_cache=False), dict(cache_implementation="static"), dict(num_beams=2)):
        given = dict(input_ids=ids, attention_mask=mask, generation_config=GenerationConfig(**settings))
        assert without_idle_rows(model, given) is given
    given = asked(ids, mask) | {"synced_gpus": True}  # a process may not stop before the others
    assert without_idle_rows(model, given) is given


def test_a_processor_that_may_look_at_other_rows_gets_transformers_own_loop():
    model, (ids, mask) = tiny(), prompts([3, 7], 4)
    plain, ours = both(model, asked(ids, mask, no_repeat_ngram_size=2))
    assert torch.equal(plain, ours)


@pytest.mark.parametrize("every", [1, 3])
def test_scores_that_are_not_finite_are_an_error_at_the_next_look(every, monkeypatch):
    model, (ids, mask), seen = tiny(), prompts([5, 5], 4), []
    monkeypatch.setattr(decode, "pace", lambda *_: (every, 1, 0.0))
    given = decode._shortened(model, asked(ids, mask), 100, seen.append)
    torch.nn.init.constant_(model.model.norm.weight, float("nan"))
    with pytest.raises(GenerationError, match="not finite"):
        model.generate(**given)
    assert len(seen) == every


@pytest.mark.slow
@pytest.mark.parametrize("name", FEW)
def test_a_model_is_sampled_and_scored_as_transformers_does_alone(name, tmp_path):
    assert wrong(folder(name, tmp_path)) == ""


@pytest.mark.parametrize(("longest", "slower"), [(24, False), (25, True)])
def test_a_window_matters_to_rows_that_are_longer(longest, slower):
    """Rows of up to 24 tokens never leave a window of 24."""
    torch.manual_seed(0)
    sizes = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2)
    config = MistralConfig(vocab_size=97, num_key_value_heads=1, sliding_window=24, initializer_range=0.3, **sizes)
    assert bool(forward.misread(MistralForCausalLM(config), looped, longest)) == slower


def test_a_count_of_layers_or_experts_is_no_span():
    config = MistralConfig(vocab_size=97, sliding_window=24, max_position_embeddings=512)
    config.max_window_layers, config.num_local_experts, config.attention_chunk_size = 28, 8, 40
    assert sorted(forward._spans_of(SimpleNamespace(config=config))) == [24, 40, 512]


def left_padded(lengths):
    ids = torch.arange(3, 3 + max(lengths)).repeat(len(lengths), 1)
    mask = torch.stack([(torch.arange(max(lengths)) >= max(lengths) - length).long() for length in lengths])
    return ids * mask, mask


def scored_as_each_alone(model, ids, mask, within):
    """The scores of left-padded rows in the loss are those of the rows without padding, which count from 0."""
    rows = [row[None, seen.bool()] for row, seen in zip(ids, mask, strict=True)]
    with torch.no_grad():
        true = [model(input_ids=row).logits[0].log_softmax(-1) for row in rows]
        scored_at(model, 1.0)
        labels = ids.clone()
        labels[:, :6] = -100
        found = model(input_ids=ids, attention_mask=mask, labels=labels, fused_lm_head=True).log_probs[:, -3:]
    for logps, row, whole in zip(found, ids, true, strict=True):
        expected = whole[-4:-1].gather(1, row[-3:, None])[:, 0].float()
        torch.testing.assert_close(logps.float(), expected, atol=within, rtol=within)


def test_learned_positions_are_those_of_each_row_in_the_loss():
    torch.manual_seed(0)
    quiet = dict(resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
    config = GPT2Config(vocab_size=97, n_embd=32, n_layer=2, n_head=2, initializer_range=0.3, **quiet)
    scored_as_each_alone(GPT2LMHeadModel(config), *left_padded([6, 9]), 1e-5)


class ByColumns(Qwen3ForCausalLM):
    """A model that counts columns, whatever padding it has, and takes no position ids."""

    def __init__(self, config):
        super().__init__(config)
        self.model.register_forward_pre_hook(self.counted, with_kwargs=True)

    def counted(self, module, args, kwargs):
        return args, {**kwargs, "position_ids": None, "attention_mask": None}


def test_rows_that_cannot_be_padded_go_apart_in_sampling_and_in_the_loss(caplog):
    torch.manual_seed(0)
    model, (ids, mask) = ByColumns(tiny().config).double().eval(), left_padded([6, 9, 6])
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(3)
    given = asked(ids, mask, do_sample=False)
    rows = [row[None, seen.bool()] for row, seen in zip(ids, mask, strict=True)]
    alone = [model.generate(**asked(row, torch.ones_like(row), do_sample=False))[0, row.size(1) :] for row in rows]
    found = model.generate(**without_idle_rows(model, given))[:, ids.size(1) :]
    assert "separate passes" in caplog.text
    for answer, expected in zip(found, alone, strict=True):
        assert answer[: len(expected)].tolist() == expected.tolist() and not answer[len(expected) :].any()
    scored_as_each_alone(model, ids, mask, 1e-4)


def test_a_measurement_leaves_the_model_and_the_generators_as_they_were(monkeypatch):
    monkeypatch.setattr(forward, "_found", {})
    model = tiny(torch.float32).train()
    model.lm_head.eval()
    modes, before, kept = [part.training for part in model.modules()], torch.get_rng_state(), model.generation_config
    for layout in (looped, forward.padded, forward.placed):
        assert forward.misread(model, layout) == ""
    assert [part.training for part in model.modules()] == modes and model.generation_config is kept
    assert torch.equal(torch.get_rng_state(), before) and all(p.grad is None for p in model.parameters())


def test_a_head_that_is_more_than_one_product_is_refused_in_a_sentence():
    with pytest.raises(ConfigError, match="BertLMHeadModel makes its scores by more than its output embeddings"):
        scored_at(built("bert"), 1.0)
