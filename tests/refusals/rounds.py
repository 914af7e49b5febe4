"""What a trainer refuses of parts handed to it as objects, and what a round refuses of what they return."""

import torch
from peft import LoraConfig

from countdown_selfplay._trl import vllm_installed
from countdown_selfplay.config.rules import check_progress, refuse_unsupported
from countdown_selfplay.countdown import CountdownDomain
from countdown_selfplay.errors import CheckpointError, DataError, GameError, MissingExtraError, RewardError
from countdown_selfplay.games.propose_and_solve import ProposeAndSolve
from countdown_selfplay.objectives.rloo import RLOO
from countdown_selfplay.policies.forward import allow_padding_free, scored_at
from countdown_selfplay.rewards import make_conjecturer_reward
from countdown_selfplay.rewards.learning_progress import LearningProgress
from countdown_selfplay.rewards.prover.verifier import countdown_reward
from countdown_selfplay.rewards.solve_rate import Tent
from countdown_selfplay.tiny import load_tiny_model
from tests.refusals import own
from tests.refusals.rows import row
from tests.refusals.settings import SGS, config, untrained
from tests.trainer.conftest import make_trainer
from tests.trainer.test_moves import build
from tests.trainer.test_round import problems
from tests.trainer.test_targets import targets

STRAY = LoraConfig(r=4, target_modules=["q_proj"], modules_to_save=["embed_tokens"], task_type="CAUSAL_LM")
MANY = {**SGS, "proposer_kwargs": {}, "operands": [2, 3], "problems_per_round": 16}
PROVER_ALONE = dict(game=None, conjecturer_num_generations=None)
NO_CONJECTURER = dict(conjecturer_num_generations=None, conjecturer_players=0)


def played(parts=None, **settings):
    make_trainer("run", trainer=parts, **{"max_steps": 1, **settings}).train()


def half_optimized():
    model, tokenizer = load_tiny_model()
    own_parts = {"optimizers": (torch.optim.SGD(model.parameters()), None), "processing_class": tokenizer}
    make_trainer("run", model=model, trainer=own_parts)


def packed_rows():
    model = load_tiny_model()[0]
    scored_at(model, temperature=1.0)
    allow_padding_free(model)


def own_round(game):
    played({"game": game}, **PROVER_ALONE, max_steps=2, save_strategy="steps", save_steps=1)


ROWS = [
    row("objectives['prover']=RLOO", untrained, {"objectives": {"prover": RLOO}}),
    row("objectives=prover,", untrained, {"objectives": RLOO()}),
    row("objectives=critic;", untrained, {"objectives": {"critic": RLOO()}}),
    row("=BaseObjective =prover's", untrained, {"objectives": {"prover": 3}}),
    row("=Tent()", untrained, {"conjecturer_reward": Tent}),
    *(row("=(solve_rate_P)", untrained, {"conjecturer_reward": reward}) for reward in (lambda: 1.0, lambda p, c,
        more: p)),
    row("=callable =3", untrained, {"conjecturer_reward": 3}),
    row("game=ProposeAndSolve", untrained, {"game": ProposeAndSolve}),
    row("domain=CountdownDomain", untrained, {"domain": CountdownDomain}),
    row("reward_funcs=Tent", untrained, {"reward_funcs": [Tent]}),
    row("reward_funcs=1.0", untrained, {"reward_funcs": [1.0]}),
    row("length_penalty=0.1", untrained, {"reward_funcs": countdown_reward}, length_penalty=0.1),
    row("game=NoRoles", untrained, {"game": own.NoRoles()}, **PROVER_ALONE),
    row("proposer=Proposes", untrained, {"game": ProposeAndSolve(own.Proposes)}),
    row("proposer=RLOO", untrained, {"game": ProposeAndSolve(RLOO())}),
    row("proposer=Proposes", untrained, {"game": ProposeAndSolve(own.Proposes())}, **NO_CONJECTURER),
    row("roles.critic", untrained, {"game": own.Plain()}, roles={"critic": {}}, **PROVER_ALONE),
    row("game=Forgetful", untrained, {"game": own.Forgetful()}, **PROVER_ALONE),
    row("conjecturer_reward=tent", untrained, {"game": ProposeAndSolve(), "conjecturer_reward": "tent"}),
    row("=game/count", untrained, {"game": own.Remembers({"count": {2: 1}})}, error=GameError, **PROVER_ALONE),
    row("=game/set", untrained, {"game": own.Remembers({"set": {1}})}, error=GameError, **PROVER_ALONE),
    row("state_dict=Remembers", untrained, {"game": own.Remembers({})}, error=GameError, **PROVER_ALONE),
    row("=game/proposer/arms", untrained, {"game": ProposeAndSolve(own.Arms())}, error=GameError),
    row("eval_dataset=dict", untrained, {"eval_dataset": {"a": problems(4)}}),
    row("=7 =8", untrained, {"train_dataset": problems(7)}, error=DataError),
    *(row(name, untrained, {name: problems(24).to_iterable_dataset()}, error=DataError)
      for name in ("train_dataset", "eval_dataset")),
    # weights in bf16 keep 8 bits: a tenth of a step is lost in their rounding. SGD has no moments
    *(row(said, untrained, parts, **{**named, **changed})
      for parts, named in (({"conjecturer_reward": LearningProgress()}, {}),
                           (None, {"conjecturer_reward": "learning_progress"}))
      for changed, said in [
        ({"model_init_kwargs": {"dtype": "bfloat16"}}, "conjecturer_reward=learning_progress"),
        ({"optim": "sgd"}, "optim=sgd"), ({"optim": "adafactor"}, "optim=adafactor")]),
    *(row(f"={engine}", check_progress, config(), engine,
          make_conjecturer_reward("sum", {"terms": ["learning_progress"]})) for engine in ("zero2", "zero3", "fsdp2")),
    # rounds
    row("play=Nothing", own_round, own.Nothing(), error=GameError),
    row("play=Rollouts", own_round, own.Rollouts(), error=GameError),
    row("=prover =(1)", own_round, own.OldTurns(), error=GameError),
    row("=prover =(3,) =32", own_round, own.TooFew(), error=RewardError),
    row("='critic' =prover", own_round, own.Stranger(), error=GameError),
    row("=8, =4) =()", played, {"objectives": {"prover": own.Scalar()}}),
    row("=8, =4) =NaN", played, {"objectives": {"prover": own.Infinite()}}),
    row("select=prover", played, {"objectives": {"prover": own.SelectsByNumber()}}),
    row("loss=PerRow", played, {"objectives": {"prover": own.PerRow()}}),
    row("loss=Tensor", played, {"objectives": {"prover": own.BareLoss()}}),
    row("=huge =1e+39 =0", played, {"reward_funcs": (own.huge,)}, error=RewardError),
    row("=Explosive =inf =31", played, {"reward_funcs": own.Explosive()}, error=RewardError),
    row("=conjecturer =two~objects", half_optimized),
    row("=embed_tokens =no~role", played, {"peft_config": STRAY}, policy_sharing="lora"),
    row("='sdpa'", packed_rows),
    *([] if vllm_installed() else [row("generation_backend=vllm =countdown-selfplay[vllm]", untrained,
        error=MissingExtraError, model=None, generation_backend="vllm")]),
    row("generation_backend=vllm_server =CUDA", untrained, model=None, generation_backend="vllm_server"),
    row("reset_optimizer=round =DeepSpeed", refuse_unsupported, config(**SGS, reset_optimizer="round"), "zero2"),
    row("=12~targets =12~synthetic", played, {"train_dataset": targets()}, **MANY),
    row("per_device_train_batch_size=18 =19.", build, "run", operands=[3, 20], per_device_train_batch_size=18,
        conjecturer_num_generations=2),
    row("=runs/none", lambda: make_trainer("run").train(resume_from_checkpoint="runs/none"), error=CheckpointError),
]  # fmt: skip
