# Tests: tiny/__init__.py, evaluation/model.py, evaluation/roles.py, evaluation/sampling.py, evaluation/setting.py
"""The embedded models as they are shipped: files, sizes, tokenizer, weights, and what they can do."""

import hashlib
import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tools.make_tiny_model.exercises import exercises
from tools.make_tiny_model.figures import held_out_problems
from transformers import AutoModelForCausalLM

from countdown_selfplay.cli.eval import parse
from countdown_selfplay.countdown import CountdownDomain, heldout_key
from countdown_selfplay.evaluation.model import folder_of
from countdown_selfplay.evaluation.setting import setting_of
from countdown_selfplay.tiny import (
    LADDER_ASKED_PATH,
    LADDER_MODEL_PATHS,
    LADDER_SPEC,
    TINY_MODEL_PATH,
    TINY_SPEC,
    load_tiny_model,
    resolve_model,
)

LADDER = {**LADDER_MODEL_PATHS, "asked": LADDER_ASKED_PATH}
PATHS = {"tiny": TINY_MODEL_PATH, **LADDER}


@pytest.fixture(scope="module")
def models():
    return {role: load_tiny_model(path) for role, path in PATHS.items()}


@pytest.fixture(scope="module")
def tokenizer(models):
    return models["tiny"][1]


@pytest.fixture(scope="module")
def held_out():
    return held_out_problems(TINY_SPEC)


def test_the_name_leads_to_the_prover_and_others_to_themselves():
    assert resolve_model("tiny-ladder") == str(LADDER_MODEL_PATHS["prover"])
    assert resolve_model("tiny") == resolve_model(None) == str(TINY_MODEL_PATH)
    assert resolve_model("some/model") == "some/model"


SHAPES = [
    ("tiny", 128, 3, 384, 32), ("prover", 64, 4, 192, 16), ("conjecturer", 48, 2, 128, 16), ("asked", 48, 2, 128, 16),
]  # fmt: skip


@pytest.mark.parametrize(("role", "width", "layers", "inner", "head"), SHAPES)
def test_the_weights_load_offline_in_float32_and_have_the_size_that_is_documented(role, width, layers, inner, head):
    model = AutoModelForCausalLM.from_pretrained(str(PATHS[role]), local_files_only=True)
    # Embedding of 113 + 16 words, tied; a layer: 4 square projections, 3 of the MLP, norms 2 x width and 2 x head;
    # last norm.
    layer = 4 * width**2 + 3 * width * inner + 2 * width + 2 * head
    assert model.num_parameters() == 129 * width + layers * layer + width <= 1_000_000
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert (model.config.head_dim, model.config.num_attention_heads) == (head, width // head)
    assert model.config.max_position_embeddings == 64
    assert json.loads((PATHS[role] / "config.json").read_text())["architectures"] == ["Qwen3ForCausalLM"]
    own = model.generation_config  # the plain softmax, until the end token
    assert (own.pad_token_id, own.bos_token_id, own.eos_token_id, own.max_new_tokens) == (0, 1, 2, None)
    assert (own.do_sample, own.temperature, own.top_k, own.top_p) == (True, 1.0, 0, 1.0)


@pytest.mark.parametrize(("role", "digest"), [
    ("prover", "ac929ff3f61544ab83909905fc56fd8b69c95268ccb38eb15d34e929e98fd41f"),
    ("conjecturer", "07b7ad5728af0f233f00f856eb5a5fa9e7a3b58cacd53e8e797bc15e0803bef8"),
    ("asked", "e99c685ef1c5148c23c085055188c3920e8ce0bc2efd2df8e804ce58272d1c73"),
])  # fmt: skip
def test_the_weights_are_those_whose_figures_were_measured(role, digest):
    assert hashlib.sha256((LADDER[role] / "model.safetensors").read_bytes()).hexdigest() == digest


def test_the_tokenizer_reads_words_and_writes_them_with_single_spaces(tokenizer):
    assert (tokenizer.pad_token, tokenizer.bos_token, tokenizer.eos_token) == ("<pad>", "<s>", "</s>")
    assert tokenizer.padding_side == "left"
    assert tokenizer.chat_template is None
    for text in ("3 * 5 + 7", "( 12 - 4 ) / 8", "3 5 7 = 22", "3 5 7 = 22 :", "propose 3 :"):
        ids = tokenizer(text)["input_ids"]
        assert ids[0] == tokenizer.bos_token_id
        assert len(ids) == 1 + len(text.split())
        assert tokenizer.decode([*ids, tokenizer.eos_token_id], skip_special_tokens=True) == text


def test_the_tokenizer_knows_the_numbers_0_to_99_and_keeps_unknown_words_visible(tokenizer):
    numbers = " ".join(str(n) for n in range(100))
    assert tokenizer.decode(tokenizer(numbers)["input_ids"], skip_special_tokens=True) == numbers
    # Dropping the unknown word would leave a right answer that was never written.
    assert tokenizer.decode(tokenizer("3 * 5 100 + 7")["input_ids"], skip_special_tokens=True) == "3 * 5 <unk> + 7"


def test_the_prompts_of_both_roles_have_no_unknown_word(tokenizer, held_out):
    domain, unknown = CountdownDomain.tiny(), tokenizer.convert_tokens_to_ids("<unk>")
    prompts = [domain.prove_row(problem)["prompt"] for problem in held_out]
    prompts += [domain.propose_row(k)["prompt"] for k in TINY_SPEC.operands]
    assert unknown not in {token for ids in tokenizer(prompts)["input_ids"] for token in ids}


def test_held_out_problems_are_all_held_out_distinct_and_within_the_spec(held_out):
    # A brute force over ordered triples and operators counts 4,739 solvable problems; one in eight would be 592. The
    # figures of docs/tiny_model.md are over exactly these, and another split would put trained-on problems among them.
    assert len(held_out) == len({problem.key for problem in held_out}) == 638
    assert len(exercises(3, TINY_SPEC)) == 4739 - 638
    assert all(heldout_key(problem.key) and TINY_SPEC.admits(problem) for problem in held_out)
    assert held_out_problems(TINY_SPEC, 5) == held_out[:5]
    assert held_out_problems(TINY_SPEC, seed=1) != held_out


@pytest.mark.parametrize("model", ["tiny-ladder", "tiny-ladder-asked", str(LADDER_MODEL_PATHS["prover"])])
def test_eval_scores_them_in_their_own_game(model):
    setting = setting_of(parse(["--model", model]))
    assert setting.domain == CountdownDomain.ladder()
    assert setting.domain.spec == LADDER_SPEC
    assert folder_of(model) == Path(resolve_model(model))


LEARNT = 113
"""Words of the warm start, with 16 reserved ones behind them."""


def test_the_words_of_the_warm_start_keep_their_ids_and_their_weights(tokenizer):
    """The digest is that of the weights as they were before the reserved words (model.safetensors with SHA-256
    743b0487...), by the same lines: names in order, each with its float32 bytes, of the embedding 113 rows."""
    words = ["<pad>", "<s>", "</s>", "<unk>", "+", "-", "*", "/", "(", ")", "=", ":", "propose"]
    assert tokenizer.convert_tokens_to_ids([*words, *map(str, range(100))]) == list(range(LEARNT))
    digest = hashlib.sha256()
    for name, tensor in sorted(load_file(TINY_MODEL_PATH / "model.safetensors").items()):
        digest.update(name.encode())
        digest.update((tensor[:LEARNT] if "embed_tokens" in name else tensor).contiguous().numpy().tobytes())
    assert digest.hexdigest() == "74fdba7ce63d7af29e8673d8844550257fe05503819115a073d436716b8a35de"
