# Tests: evaluation/roles.py
"""The embedded model as it is shipped: files, size, tokenizer, what it can do."""

import hashlib
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file
from tools.make_tiny_model.exercises import exercises
from tools.make_tiny_model.figures import MAX_NEW_TOKENS, held_out_problems
from tools.make_tiny_model.tokenizer import RESERVED
from transformers import AutoModelForCausalLM, AutoTokenizer

from countdown_selfplay.countdown import CountdownDomain, heldout_key
from countdown_selfplay.evaluation import evaluate_conjecturer, evaluate_prover
from countdown_selfplay.tiny import TINY_MODEL_PATH, TINY_SPEC, load_tiny_model

# Measured on all 638 held-out problems x 16 answers, docs/tiny_model.md.
PASS_AT_1 = 0.281
SOLVABLE = 0.331


@pytest.fixture(scope="module")
def model_and_tokenizer():
    return load_tiny_model()


def test_importing_the_package_loads_no_torch():
    code = "import sys, countdown_selfplay.tiny as t; t.TINY_MODEL_PATH, t.TINY_SPEC; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_spec_is_that_of_the_tiny_domain():
    assert CountdownDomain.tiny().spec == TINY_SPEC


def test_the_files_take_at_most_three_megabytes():
    names = {path.name for path in TINY_MODEL_PATH.iterdir()}
    assert {"config.json", "generation_config.json", "model.safetensors", "README.md"} <= names
    assert {"tokenizer.json", "tokenizer_config.json"} <= names
    assert sum(path.stat().st_size for path in TINY_MODEL_PATH.iterdir()) <= 3_000_000


def test_the_weights_load_offline_in_float32_with_at_most_a_million_parameters():
    model = AutoModelForCausalLM.from_pretrained(str(TINY_MODEL_PATH))
    # Embedding (113 + 16 reserved) x 128, tied; a layer: 4 projections 128 x 128, 3 of 128 x 384, norms 2 x 128 and
    # 2 x 32; last norm.
    assert model.num_parameters() == 129 * 128 + 3 * (4 * 128**2 + 3 * 128 * 384 + 2 * 128 + 2 * 32) + 128
    assert model.num_parameters() <= 1_000_000
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert model.config.head_dim == 32
    assert model.config.max_position_embeddings == 64


def test_it_generates_from_the_plain_softmax_until_the_end_token():
    config = AutoModelForCausalLM.from_pretrained(str(TINY_MODEL_PATH)).generation_config
    assert (config.pad_token_id, config.bos_token_id, config.eos_token_id) == (0, 1, 2)
    assert (config.do_sample, config.temperature, config.top_k, config.top_p) == (True, 1.0, 0, 1.0)
    assert config.max_new_tokens is None


def test_the_tokenizer_reads_words_and_writes_them_with_single_spaces():
    tokenizer = AutoTokenizer.from_pretrained(str(TINY_MODEL_PATH))
    assert (tokenizer.pad_token, tokenizer.bos_token, tokenizer.eos_token) == ("<pad>", "<s>", "</s>")
    assert tokenizer.padding_side == "left"
    assert tokenizer.chat_template is None
    for text in ("3 * 5 + 7", "( 12 - 4 ) / 8", "3 5 7 = 22", "3 5 7 = 22 :", "propose 3 :"):
        ids = tokenizer(text)["input_ids"]
        assert ids[0] == tokenizer.bos_token_id
        assert len(ids) == 1 + len(text.split())
        assert tokenizer.decode([*ids, tokenizer.eos_token_id], skip_special_tokens=True) == text


def test_the_tokenizer_knows_the_numbers_0_to_99_and_keeps_unknown_words_visible():
    tokenizer = AutoTokenizer.from_pretrained(str(TINY_MODEL_PATH))
    numbers = " ".join(str(n) for n in range(100))
    assert tokenizer.decode(tokenizer(numbers)["input_ids"], skip_special_tokens=True) == numbers
    # Dropping the unknown word would leave a right answer that was never written.
    assert tokenizer.decode(tokenizer("3 * 5 100 + 7")["input_ids"], skip_special_tokens=True) == "3 * 5 <unk> + 7"


def test_a_batch_of_prompts_is_padded_on_the_left():
    tokenizer = AutoTokenizer.from_pretrained(str(TINY_MODEL_PATH))
    batch = tokenizer(["3 5 7 = 22 :", "propose 3 :"], padding=True)
    assert batch["attention_mask"] == [[1] * 7, [0, 0, 0, 1, 1, 1, 1]]


def test_the_prompts_of_both_roles_have_no_unknown_word(model_and_tokenizer):
    _, tokenizer = model_and_tokenizer
    domain, unknown = CountdownDomain.tiny(), tokenizer.convert_tokens_to_ids("<unk>")
    prompts = [domain.prove_row(problem)["prompt"] for problem in held_out_problems(TINY_SPEC)]
    prompts += [domain.propose_row(k)["prompt"] for k in TINY_SPEC.operands]
    assert unknown not in {token for ids in tokenizer(prompts)["input_ids"] for token in ids}


def test_held_out_problems_are_all_held_out_distinct_and_within_the_spec():
    problems = held_out_problems(TINY_SPEC)
    # A brute force over ordered triples and operators counts 4,739 solvable problems; one in eight would be 592. The
    # figures of docs/tiny_model.md are over exactly these, and another split would put trained-on problems among them.
    assert len(problems) == 638
    assert len(exercises(3, TINY_SPEC)) == 4739 - 638
    assert len({problem.key for problem in problems}) == len(problems)
    assert all(heldout_key(problem.key) and TINY_SPEC.admits(problem) for problem in problems)
    assert held_out_problems(TINY_SPEC, 5) == problems[:5]
    assert held_out_problems(TINY_SPEC, seed=1) != problems


def test_the_prover_leaves_room_to_learn_and_is_no_beginner(model_and_tokenizer):
    model, tokenizer = model_and_tokenizer
    problems = held_out_problems(TINY_SPEC, 128, seed=1)
    result = evaluate_prover(
        model, tokenizer, problems, CountdownDomain.tiny(), 4, (1, 4), max_new_tokens=MAX_NEW_TOKENS
    )
    # The standard deviation of pass@1 over 128 problems x 4 answers is about .025: problems spread by .23 around the
    # mean, answers by at most .5: sqrt((.23^2 + .2 / 4) / 128). Four of them are .10.
    assert abs(result.pass_at[1].value - PASS_AT_1) < 0.10
    assert result.pass_at[4].value > result.pass_at[1].value + 0.2
    assert result.truncated_rate < 0.01


def test_the_conjecturer_is_parseable_and_leaves_room_to_become_solvable(model_and_tokenizer):
    model, tokenizer = model_and_tokenizer
    domain = replace(CountdownDomain.tiny(), spec=TINY_SPEC)
    result = evaluate_conjecturer(model, tokenizer, domain, 512, max_new_tokens=MAX_NEW_TOKENS)
    assert result.parseable.value >= 0.95
    assert result.facts["in_range"].value >= 0.95
    # Standard deviation sqrt(.33 * .67 / 512) = .021; four of them are .085.
    assert abs(result.facts["solvable"].value - SOLVABLE) < 0.085
    assert result.unique is not None
    assert result.unique.value > 0.9


# The words of the warm start, and 16 reserved ones behind them

LEARNT = 113
PROMPTS = ["3 5 7 = 22 :", "12 4 8 = 1 :", "propose 3 :"]


def test_the_words_of_the_warm_start_keep_their_ids_and_their_weights(model_and_tokenizer):
    """The digest is that of the weights as they were before the reserved words (model.safetensors with SHA-256
    743b0487...), by the same lines: names in order, each with its float32 bytes, of the embedding 113 rows."""
    _, tokenizer = model_and_tokenizer
    words = [
        *(["<pad>", "<s>", "</s>", "<unk>", "+", "-", "*", "/", "(", ")", "=", ":", "propose"]),
        *(str(n) for n in range(100)),
    ]
    assert tokenizer.convert_tokens_to_ids(words) == list(range(LEARNT))
    digest = hashlib.sha256()
    for name, tensor in sorted(load_file(TINY_MODEL_PATH / "model.safetensors").items()):
        digest.update(name.encode())
        digest.update((tensor[:LEARNT] if "embed_tokens" in name else tensor).contiguous().numpy().tobytes())
    assert digest.hexdigest() == "74fdba7ce63d7af29e8673d8844550257fe05503819115a073d436716b8a35de"


def test_the_old_logits_are_those_of_the_old_weights(model_and_tokenizer):
    """At the last token of each prompt, of `</s> + * ( 3 5`: computed with the weights of the commit before, to four
    digits, for sums are rounded by machine. The head cut back to its 113 rows agrees closer than that: hidden states
    are the same bits, and a product with more columns may be summed in another order."""
    model, tokenizer = model_and_tokenizer
    old = [
        [-1.7019, -0.2605, -0.2337, 6.6441, 7.3222, 7.3724],
        [-0.5239, -0.9163, -0.6023, 6.8455, 2.4699, 0.5855],
        [-2.1401, -1.5996, -1.6921, 0.5167, 5.9911, 5.9959],
    ]
    rows = model.get_input_embeddings().weight[:LEARNT]
    for prompt, expected in zip(PROMPTS, old, strict=True):
        ids = tokenizer(prompt, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            logits, hidden = model(ids).logits[0], model.model(ids).last_hidden_state[0]
        assert logits[-1][[2, 4, 6, 8, 16, 18]].tolist() == pytest.approx(expected, abs=2e-4)
        assert torch.allclose(logits[:, :LEARNT], hidden @ rows.T, rtol=0, atol=1e-5)


def test_the_reserved_words_are_known_and_practically_never_said(model_and_tokenizer):
    model, tokenizer = model_and_tokenizer
    assert tokenizer.convert_tokens_to_ids(list(RESERVED)) == list(range(LEARNT, LEARNT + 16))
    text = "critic check right because <r0>"
    assert tokenizer.decode(tokenizer(text)["input_ids"], skip_special_tokens=True) == text
    domain = CountdownDomain.tiny()
    prompts = [domain.prove_row(problem)["prompt"] for problem in held_out_problems(TINY_SPEC, 48)]
    prompts += [domain.propose_row(3)["prompt"]] * 16
    worst = 0.0
    torch.manual_seed(0)
    with torch.no_grad():
        for prompt in prompts:
            ids = tokenizer(prompt, return_tensors="pt")["input_ids"]
            said = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=12)
            mass = model(said).logits[0, ids.shape[1] - 1 :].double().softmax(1)[:, LEARNT:].sum(1)
            worst = max(worst, float(mass.max()))
    assert worst < 1e-6
    # As input they differ: no two rows are closer than half of what a word of its own has (length 2).
    rows = model.get_input_embeddings().weight.detach()[LEARNT:]
    assert torch.cdist(rows, rows).add(torch.eye(16) * 9).min() > 1
