# Tests: policies/decode.py
"""The decoding loop without idle rows against transformers' own: equal seeds give equal tokens."""

import gc
import weakref

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, GenerationConfig, PreTrainedTokenizerFast

from countdown_selfplay._transformers import cache_name
from countdown_selfplay.errors import GenerationError
from countdown_selfplay.policies import decode
from countdown_selfplay.policies.decode import common_run, common_start, without_idle_rows
from countdown_selfplay.tiny import TINY_MODEL_PATH, load_tiny_model
from tests.trainer.test_speed import prompts


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
