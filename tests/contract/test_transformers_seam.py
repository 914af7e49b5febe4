# Tests: _transformers.py, policies/decode.py
"""The pinned Transformers has the names that the decoding loop relies on; where one moved, its own loop samples."""

import logging

import pytest
import torch
from transformers import Cache
from transformers.generation import GenerationMixin

from countdown_selfplay import _transformers
from countdown_selfplay.policies import forward
from countdown_selfplay.policies.decode import without_idle_rows
from tests.trainer.test_decode import asked, prompts, tiny


@pytest.fixture(autouse=True)
def nothing_measured(monkeypatch):
    for memory in (_transformers.moved_names, forward.say_once):
        memory.cache_clear()
    monkeypatch.setattr(forward, "_found", {})
    yield
    for memory in (_transformers.moved_names, forward.say_once):
        memory.cache_clear()


def test_the_transformers_at_hand_has_every_name_of_the_seam():
    assert _transformers.moved_names() == () and _transformers.cache_name() in _transformers.CACHE_NAMES


def renamed(self, input_ids, next_sequence_length=None, kv_state=None, **kwargs):
    raise NotImplementedError


@pytest.mark.parametrize(("owner", "name", "value", "said"), [
    (GenerationMixin, "prepare_inputs_for_generation", renamed, "takes no cache or past_key_values"),
    (Cache, "batch_select_indices", lambda self, rows: None, "takes no indices"),
    (Cache, "batch_repeat_interleave", None, "is gone"),
])  # fmt: skip
def test_a_name_that_has_moved_means_transformers_own_loop_and_one_warning(
    monkeypatch, caplog, owner, name, value, said
):
    model, (ids, mask) = tiny(), prompts([3, 7], 2)
    torch.manual_seed(0)
    expected = model.generate(**asked(ids, mask))
    with monkeypatch.context() as moved, caplog.at_level(logging.WARNING):
        moved.setattr(owner, name, value)
        twice = [without_idle_rows(model, asked(ids, mask)) for _ in range(2)]
    assert all("custom_generate" not in given for given in twice)
    assert len(caplog.records) == 1 and said in caplog.text and "slower loop of Transformers" in caplog.text
    torch.manual_seed(0)
    assert torch.equal(model.generate(**twice[0]), expected)


def test_a_loop_that_is_handed_its_cache_by_another_name_hands_it_on_by_that_name(monkeypatch):
    """The cache is found by its kind: 5.24 calls it `cache`, older ones `past_key_values`."""
    model, (ids, mask) = tiny(), prompts([3, 7], 2)
    torch.manual_seed(0)
    expected = model.generate(**asked(ids, mask))
    given = without_idle_rows(model, asked(ids, mask))
    loop, name, stock = given["custom_generate"], _transformers.cache_name(), model.forward

    def forward(*args, kv_state=None, **kwargs):
        return stock(*args, **kwargs, **({} if kv_state is None else {name: kv_state}))

    def handed(model, *args, **kwargs):
        kwargs["kv_state"] = kwargs.pop(name)
        model.forward = forward
        return loop(model, *args, **kwargs)

    torch.manual_seed(0)
    assert torch.equal(model.generate(**{**given, "custom_generate": handed}), expected)
