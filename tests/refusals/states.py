"""What is refused of saved files and states, of launches, and of what a round is asked for."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from datasets import Dataset, DatasetDict

from countdown_selfplay.config.script import EvaluationArguments
from countdown_selfplay.contract.domain import BaseDomain
from countdown_selfplay.contract.game import BaseGame
from countdown_selfplay.countdown import CountdownDomain, Problem, ProblemSpec, Rules
from countdown_selfplay.countdown.mutations import CountdownMutations
from countdown_selfplay.data.anchors import anchor_dataset
from countdown_selfplay.data.jsonl import json_file
from countdown_selfplay.data.run_files import discard_lines, read_lines
from countdown_selfplay.distributed.choose import choose_engine
from countdown_selfplay.domains import held_out_by_rung
from countdown_selfplay.errors import CheckpointError, DataError, GameError, PromptError, RewardError
from countdown_selfplay.evaluation import evaluate_prover
from countdown_selfplay.evaluation.sampling import end_token_ids
from countdown_selfplay.games.propose_and_solve import ProposeAndSolve
from countdown_selfplay.guides.rubric import Rubric
from countdown_selfplay.objectives import make_objective
from countdown_selfplay.proposers import make_proposer
from countdown_selfplay.proposers.policies import Policies
from countdown_selfplay.proposers.symbolic.difficulty import Predictor, read_labels
from countdown_selfplay.proposers.symbolic.selection import NoveltyArchive
from countdown_selfplay.rewards import RewardContext, make_conjecturer_reward
from countdown_selfplay.testing import ScriptedRound
from countdown_selfplay.training.parts import declared_metrics
from tests.refusals.parts import tiers
from tests.refusals.readers import problems, sampled, written
from tests.refusals.rows import row
from tests.refusals.settings import config
from tests.trainer.conftest import make_config
from tests.unit.evaluation.stairs import Stairs
from tests.unit.policies.test_build import TINY, built
from tests.unit.proposers.symbolic.test_factorized import policy
from tests.unit.proposers.test_targets import game, outcome, played
from tests.unit.training.test_replay import queue

PROBLEM = Problem((1, 2, 3), 6)
TIERS = {"axis": "rung", "start": [5, 9], "levels": [5, 9]}
TWO = {"players": 2}
LABEL = {"numbers": [1, 2, 3], "target": 6, "correct": 4, "attempts": 8}
FSDP = {"ACCELERATE_USE_FSDP": "true"}


def saved(split):
    DatasetDict(test=Dataset.from_list([{"nums": [3, 5], "target": 8}])).save_to_disk("saved")
    return problems("saved")


def folder(name):
    Path(name).mkdir()
    return problems(name)


def stepped(path):
    return read_lines(path, step=int)


def discarded(path):
    return discard_lines(path, 2)


def launched(make, environment, **given):
    """What `make` says of a process that a launcher has started so."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        return make(**given)


def chosen(deepspeed=None, fsdp=None, **settings):
    args = make_config("run", **settings)
    args.deepspeed, args.fsdp, args.fsdp_config = deepspeed, fsdp is not None, fsdp
    return choose_engine(args)


def wider():
    """A model whose weights have other shapes than its config says."""
    folder = Path(shutil.copytree(TINY, "model"))
    said = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(said | {"intermediate_size": 2 * said["intermediate_size"]}))
    return built(model=str(folder), prover={})


def declaring(part, metrics):
    part.metrics = metrics
    return declared_metrics(ProposeAndSolve(part) if isinstance(part, Policies) else part, {})


def from_tiers(content, **changes):
    return written(lambda path: tiers(start=str(path), **changes), "tier_config.json", content)


def archive(use_all=True, size=7, **changes):
    """Read back what an archive of 7 features has saved under the rules of the run."""
    first, again = NoveltyArchive(7), NoveltyArchive(size)
    first.open({"rules": {"use_all": True}, "prover_prompt": "compact"})
    first.add(["a", "b"], np.eye(2, 7))
    again.load_state_dict({**first.state_dict(), **changes})
    again.open({"rules": {"use_all": use_all}, "prover_prompt": "compact"})


def learned(asked):
    """What a predictor with labels of 4 features, too few for trees, is asked next."""
    young = Predictor()
    young.learn(np.zeros((20, 4)), np.zeros(20), 8)
    return asked(young)


def labels(text):
    return written(lambda path: read_labels(str(path), CountdownDomain.tiny()), "rates.jsonl", text)


ROWS = [
    # data files and logs
    row("=x.jsonl.gz =(.gz)", written, problems, "x.jsonl.gz", b"x", error=DataError),
    row("=f[1] =rename", folder, "f[1]", error=DataError),
    row("=gone.JSONL", problems, "gone.JSONL", error=DataError),
    row("=saved ='train' =test", saved, "train", error=DataError),
    row("=0, ='target'", anchor_dataset, Dataset.from_list([{"nums": [1, 2], "goal": 3}]), CountdownDomain(), seed=0,
        error=DataError),
    *(row(f"=a.json ={why} =start~again", written, json_file, "a.json", text, "start again", error=DataError)
      for text, why in [("[1]", "list"), ("", "empty"), ('{"a": 1', "Expecting"), ("\ufeff{", "Expecting")]),
    row("=absent.json =file", json_file, Path("absent.json"), error=DataError),
    *(row(f"=log.jsonl =2: {said}", written, reads, "log.jsonl", '{"step": 1}\n' + line + '\n{"step": 3}\n',
          error=DataError)
      for reads in (stepped, discarded) for line, said in [
        ('{"st', "=JSON =damaged"), ("{}", "step"), ('{"step": "two"}', "step='two'"), ('{"step": true}', "step=True"),
        ('{"step": null}', "step=None")]),
    # samples and evaluations
    row("=empty =first", sampled, stop_strings=["\n", ""]),
    row("='##' =option", sampled, stop_strings=["##"], error=PromptError),
    row("eos_token_id", end_token_ids, None, SimpleNamespace(eos_token_id=None), chat=False),
    row("--rungs=12 =1,~2", held_out_by_rung, Stairs(), (3, 12), 2),
    row("=rung", held_out_by_rung, BaseDomain(), None, 2),
    row("ks=8 =4", evaluate_prover, None, None, [PROBLEM], CountdownDomain.tiny(), n=4, ks=(1, 8)),
    row("=problem", evaluate_prover, None, None, [], CountdownDomain.tiny(), error=DataError),
    *(row("eval_rungs eval_problems", EvaluationArguments, eval_problems=problems, eval_rungs=rungs)
      for rungs, problems in (([3, 4], 1), ([], 0), ([], 8))),
    # settings and launches
    row("max_tokens_per_micro_batch=11 =conjecturer =91", config, max_tokens_per_micro_batch=11,
        conjecturer_max_completion_length=90, prover_max_completion_length=10),
    row("fp16 =bf16", launched, config, {"ACCELERATE_MIXED_PRECISION": "fp16"}),
    row("roles.conjecturer.temperature=0.5", config, policy_sharing="lora",
        roles={"conjecturer": {"temperature": 0.5}}),
    row("soft_overlong=1.5", config, soft_overlong=1.5),
    row("soft_overlong=0.2 =overlong=replace", config, soft_overlong=0.2, prover_objective="cispo"),
    row("overlong_on=correct", config, overlong="replace", overlong_on="correct"),
    *(row(f"={block}", chosen, {"zero_optimization": {"stage": 2}, block: {"type": "AdamW"}})
      for block in ("optimizer", "scheduler")),
    row("prover_max_grad_norm=1.0 conjecturer_max_grad_norm=0.2", chosen, {"zero_optimization": {"stage": 2}},
        prover_max_grad_norm=1.0, conjecturer_max_grad_norm=0.2),
    row("offload_optimizer_device=cpu", chosen,
        {"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}),
    row("=FSDP~version~1", chosen, fsdp={"version": 1}),
    row("=FSDP~version~1", launched, chosen, FSDP),
    *(row(f"fsdp_{name}", chosen, fsdp={name: True}) for name in ("cpu_ram_efficient_loading",
        "activation_checkpointing")),
    *(row(name.lower(), launched, chosen, {**FSDP, "FSDP_VERSION": "2", name: "true"})
      for name in ("FSDP_CPU_RAM_EFFICIENT_LOADING", "FSDP_ACTIVATION_CHECKPOINTING")),
    # policies
    row("=prover~(1.0) =conjecturer~(0.5)", built, "lora", prover={}, conjecturer={"model": "tiny",
        "temperature": 0.5}),
    row("model =prover/1", built, "full", {"prover/0": TINY, "conjecturer": TINY}, prover=TWO, conjecturer=TWO),
    row("=shapes", wider, error=DataError),
    # rewards, objectives, domains and metrics
    row("=(4,) =2", make_conjecturer_reward("learning_progress").__call__, np.array([0.5, 0.25]),
        RewardContext(progress_P=np.zeros(4)), error=RewardError),
    row("of=objectiv", make_conjecturer_reward, "learning_progress", {"of": "objectiv"}),
    row("=prover", make_objective("expert_iteration").select, torch.ones(1, 4), None, error=ValueError),
    row("reuse =32", queue, reuse=4),
    row("carry =32", queue, carry=True),
    row("operands=(7,) =6", CountdownMutations(ProblemSpec((7,)), Rules()).mutate, [PROBLEM], ["small"], ["multiply"],
        0),
    row("answers=moves =tests.toy_domain:Sums", config, domain="tests.toy_domain:Sums", answers="moves"),
    row("metrics=('round/surprise',)", declaring, BaseGame(), ("round/surprise",)),
    row("metrics='round/learned'", declaring, Policies(), "round/learned"),
    # proposers
    row("problems_per_round=5 =6", lambda: game().play(played({}, {"prover": (5, 4), "conjecturer": (4, 1)}), [])),
    row("proposals_per_round =2", lambda: game().play(played({}, {"prover": (8, 4), "conjecturer": (2, 1)}), [])),
    row("=empty =1", lambda: game().play(played({}, problems=[Problem((1, 1, 1), 99)]), []), error=DataError),
    row("axis=rung", from_tiers, json.dumps({"tiers": [2, 5], "axis": "operands"}), axis="rung", levels=[5, 9]),
    *(row("tiers axis", from_tiers, content, error=DataError) for content in ("", "[]", '{"tiers": 3}')),
    row("=none.json", tiers, start="none.json", error=DataError),
    row("=operands =5", tiers(**TIERS).load_state_dict, tiers(start=[2, 5]).state_dict(), error=CheckpointError),
    *(row("axis levels floor ceiling", tiers(**changes).load_state_dict, tiers(start=[2, 5]).state_dict(),
          error=CheckpointError) for changes in ({"floor": 3}, {"ceiling": 4}, {"start": [3]})),
    *(row("=shapes", policy(**changes).load_state_dict, policy().state_dict())
      for changes in ({"inputs": 4}, {"actions": [4, 3]}, {"hidden": 5})),
    row("={'use_all':~True}", archive, use_all=False),
    row("=feature_set~7 =13", archive, size=13),
    row("=version~0 =1", archive, version=0),
    row("=seed~task", make_proposer("mutation").propose, ScriptedRound(str, {"prover": (2, 4)}), [], error=GameError),
    *(row("=4~features =21", learned, asked) for asked in (
        lambda one: one.estimate(None, [], np.zeros((9, 21))),
        lambda one: one.learn(np.zeros((9, 21)), np.zeros(9), 8))),
    *(row("=1: correct", labels, json.dumps(LABEL | changes), error=DataError)
      for changes in ({"correct": 9}, {"attempts": 0}, {"correct": None})),
    row("=no~line", labels, "\n", error=DataError),
    row("=none.jsonl =make", Predictor, "none.jsonl"),
    row("=proposer=targets", lambda: Rubric().score(ScriptedRound(str, {}), *outcome([0.5], (None, PROBLEM)))),
]  # fmt: skip
