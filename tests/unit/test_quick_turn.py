# Tests: _trl.py, distributed/ddp.py
"""What a round leaves out of TRL's and the Trainer's work changes no number."""

import itertools

import pytest
import torch
from trl.trainer import grpo_trainer
from trl.trainer.utils import pad

from countdown_selfplay import _trl
from countdown_selfplay.config import JointSelfPlayConfig
from countdown_selfplay.distributed.ddp import clip_roles


class Bare(torch.nn.Linear):
    is_gradient_checkpointing = False


def test_rows_are_padded_as_trl_pads_them_and_its_names_come_back():
    """Also rows of nothing, whose kind is float; matrices and multiples go to TRL's own function."""
    lists = [[[1, 2, 3], [4], []], [[], [5]], [[7]], [[1, 2], [3, 4]]]
    stock = grpo_trainer.pad, grpo_trainer.unwrap_model_for_generation
    module = Bare(1, 1)
    with _trl.quick_turn(module, bare=True):
        for rows, side, value in itertools.product(lists, ("left", "right"), (0, 9)):
            tensors = [torch.tensor(row) for row in rows]
            found, expected = grpo_trainer.pad(tensors, value, side), pad(tensors, value, side)
            assert found.dtype == expected.dtype and torch.equal(found, expected)
        wide = [torch.ones(2, 3), torch.ones(1, 3)]
        assert torch.equal(grpo_trainer.pad(wide, 5, "left"), pad(wide, 5, "left"))
        assert grpo_trainer.pad([torch.ones(3)], pad_to_multiple_of=4).shape == (1, 4)
        with grpo_trainer.unwrap_model_for_generation(module, None) as found:
            assert found is module
    assert (grpo_trainer.pad, grpo_trainer.unwrap_model_for_generation) == stock


@pytest.mark.parametrize("bare", [True, False])
def test_a_wrapped_module_and_one_that_checkpoints_are_unwrapped_by_trl(bare):
    module = Bare(1, 1)
    module.is_gradient_checkpointing = bare
    with _trl.quick_turn(module, bare):
        assert grpo_trainer.unwrap_model_for_generation.__module__ == "trl.models.utils"


@pytest.mark.parametrize("size", [1e-3, 0.5, 0.9999995, 1.0, 40.0, float("nan"), float("inf")])
@pytest.mark.parametrize("limit", [1.0, 0.0])
def test_a_role_is_clipped_as_torch_clips_it(size, limit):
    """Bit for bit, at norms around the limit too, and where it is not a number; 0 is no limit."""
    parameters = [torch.nn.Parameter(torch.zeros(3)) for _ in range(2)]
    for place, parameter in enumerate(parameters):
        parameter.grad = torch.tensor([0.6, 0.0, 0.0] if place else [0.0, 0.8, 0.0]) * size  # of norm `size`
    twins = [torch.nn.Parameter(torch.zeros(3)) for _ in parameters]
    for twin, parameter in zip(twins, parameters, strict=True):
        twin.grad = parameter.grad.clone()
    args = JointSelfPlayConfig(output_dir="unused", use_cpu=True, bf16=False, report_to="none", max_grad_norm=limit)
    optimizer = torch.optim.SGD([{"params": parameters, "role": "prover"}], lr=1.0)
    found = clip_roles(optimizer, args.all_roles)["prover"]
    expected = torch.nn.utils.clip_grad_norm_(twins, limit or float("inf"))
    same = dict(rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(torch.tensor(found), expected, **same)
    for twin, parameter in zip(twins, parameters, strict=True):
        torch.testing.assert_close(parameter.grad, twin.grad, **same)
