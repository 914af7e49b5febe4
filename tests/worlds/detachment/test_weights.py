# Tests: tiny/__init__.py, evaluation/setting.py
"""The two models of condensed detachment as they are shipped and what their warm start shows them."""

import json

import pytest
from tools.make_tiny_model.detachment import MAX_LENGTH, SIGNS, parts, proofs_shown, proposals_shown

from countdown_selfplay.cli.eval import parse
from countdown_selfplay.evaluation.sampling import sample_completions
from countdown_selfplay.evaluation.setting import setting_of
from countdown_selfplay.tiny import load_tiny_model, resolve_model
from countdown_selfplay.worlds.detachment import DETACHMENT_PATHS, check, conclusion, is_instance, is_tautology, read
from countdown_selfplay.worlds.detachment.domain import DetachmentDomain, of_held_out_side

DOMAIN = DetachmentDomain()


@pytest.fixture(scope="module")
def models():
    return {role: load_tiny_model(path) for role, path in DETACHMENT_PATHS.items()}


def test_the_names_lead_to_small_whole_models_in_the_domains_setting(models):
    assert resolve_model("tiny-detachment") == str(DETACHMENT_PATHS["prover"])
    assert resolve_model("tiny-detachment-conjecturer") == str(DETACHMENT_PATHS["conjecturer"])
    files = [path for folder in DETACHMENT_PATHS.values() for path in folder.iterdir()]
    assert sum(path.stat().st_size for path in files) < 1_200_000
    for folder in DETACHMENT_PATHS.values():
        assert json.loads((folder / "config.json").read_text())["vocab_size"] == len(SIGNS) == 38
    setting = setting_of(parse(["--model", "tiny-detachment"]))
    assert setting.domain == DOMAIN and setting.sampling["max_new_tokens"] == 26
    short = setting_of(parse(["--model", "tiny-detachment", "--domain_kwargs", '{"longest_proof": 7}']))
    assert short.domain.longest_proof == 7
    longest = max(DOMAIN.symbols * 2 + 2, DOMAIN.symbols + 1 + 24)  # a target and a lemma; a theorem and a proof
    assert longest + 2 <= MAX_LENGTH


def test_the_warm_start_shows_right_proofs_and_theorems_of_the_training_side_alone():
    """None of them proves a held-out theorem."""
    held_out = DOMAIN.held_out(1000)
    for prompt, proof in proofs_shown(500, 1):
        theorem, general = read(prompt.removesuffix(":")).problem, conclusion(proof).conclusion
        assert check(proof, theorem).correct and len(proof) <= 13
        assert not DOMAIN.is_held_out(general) and not any(is_instance(one, general) for one in held_out)
    shown = proposals_shown(500, 1)
    for prompt, text in shown:
        for formula in filter(None, (prompt.removesuffix("?"), text)):
            theorem = read(formula).problem
            assert is_tautology(theorem) and not of_held_out_side(theorem) and DOMAIN.outside(theorem) is None
    assert sum(prompt == "?" for prompt, _ in shown) == 250
    assert parts("DD211") == ["DD211", "D21"]
    assert parts("DD2D121") == ["DD2D121", "D2D12", "D12"]
    assert parts("D21") == ["D21", "2", "1"]


def test_the_models_do_what_they_were_shown(models):
    model, tokenizer = models["prover"]
    problems = [p for p in DOMAIN.random(400, 0) if DOMAIN.rung(p) in (5, 7)][:40]
    prompts = [DOMAIN.prove_row(p)["prompt"] for p in problems]
    found = sample_completions(model, tokenizer, prompts, 1, max_new_tokens=24, temperature=0)
    texts = [group[0].text for group in found]
    assert sum(verdict.correct for verdict in DOMAIN.verify(texts, problems)) >= 20
    model, tokenizer = models["conjecturer"]
    (written,) = sample_completions(model, tokenizer, [DOMAIN.propose_row()["prompt"]], 100, max_new_tokens=26)
    read_ones = [one.problem for one in DOMAIN.parse([one.text for one in written]) if one.problem is not None]
    provable = [one.reason == "ok" for one in DOMAIN.check(read_ones)]
    assert len(read_ones) >= 60 and sum(provable) >= 20
