# Tests: policies/full.py
"""Frozen references of roles whose policies are whole models."""

import torch
from tests.joint_config import joint_config

from countdown_selfplay.policies import build_policies
from countdown_selfplay.tiny import TINY_MODEL_PATH, load_tiny_model

TINY = str(TINY_MODEL_PATH)
IDS = torch.tensor([[1, 5, 9, 4, 7]])
TEMPERATURES = {"prover": 1.0, "conjecturer": 0.7}
ROLES = joint_config("unused", use_cpu=True, prover_prompt="compact", conjecturer_prompt="compact").all_roles


def prepared(model):
    policies = build_policies(model, ROLES, "full")
    policies.prepare(TEMPERATURES, [*TEMPERATURES], None, lambda frozen: frozen)
    with torch.no_grad():
        for parameter in policies.module.parameters():  # training moves the policies and not what they refer to
            parameter += 0.1
    return policies


@torch.no_grad()
def test_roles_of_one_start_refer_to_one_copy_each_at_its_own_temperature():
    policies = prepared(TINY)
    assert len(policies.frozen_copies) == 1
    logits = load_tiny_model()[0].eval()(input_ids=IDS).logits[0, :-1]
    for role in ("prover", "conjecturer", "prover"):
        with policies.reference(role, policies.module) as reference:
            found = reference(input_ids=IDS, labels=IDS, fused_lm_head=True).log_probs[0]
        expected = (logits / TEMPERATURES[role]).log_softmax(-1).gather(1, IDS[0, 1:, None])[:, 0]
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_roles_of_two_starts_refer_to_a_copy_of_each():
    moved = load_tiny_model()[0]
    policies = prepared({"prover": TINY, "conjecturer": moved})
    assert len(policies.frozen_copies) == 2
