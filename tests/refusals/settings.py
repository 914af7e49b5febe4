"""Settings that `JointSelfPlayConfig` refuses, before a model loads."""

from math import inf, nan

from countdown_selfplay import JointSelfPlayConfig
from countdown_selfplay.cli.joint import build_arguments, main, parse
from countdown_selfplay.config.script import check_starts
from countdown_selfplay.errors import DataError, PromptError, UnknownNameError
from tests.joint_config import joint_config
from tests.refusals.rows import row, rows
from tests.trainer.conftest import make_config, make_trainer

OWN = "tests.refusals.own:"
NOBODY = {"conjecturer": {"players": 0}}
RUNGS = dict(proposer="uniform_rungs", roles=NOBODY, anchor_fraction=0.0)
START = {"weights": "start"}
DEMONSTRATED = dict(prover_demonstrations_per_step=2, prover_sft_coef=3.0, prover_num_generations=4)
CRITIC = {"num_generations": 2}
CRITICS = dict(
    game="critic_discernment", game_kwargs={"revisions": 2}, conjecturer_num_generations=None, num_generations=2,
    roles={"helpful": CRITIC, "misleading": CRITIC},
)  # fmt: skip
ALONE = dict(
    max_steps=7, save_strategy="steps", save_steps=1, guard=True, guard_window=1, guard_max_rollbacks=2,
    guard_scope="conjecturer",
)  # fmt: skip
SEQUENCES = dict(
    max_steps=3, steps_per_round=16, problems_per_round=32, proposals_per_round=128, sequences_per_step=5,
    prover_objective="reinforce_half", conjecturer_num_generations=8, conjecturer_sequences_per_step=8,
)  # fmt: skip
SGS = dict(
    proposer="targets", proposer_kwargs={"batch": 6}, conjecturer_reward="sgs", prover_objective="reinforce_half",
    conjecturer_objective="reinforce_half", conjecturer_num_generations=1, steps_per_round=2, guide="rubric",
)  # fmt: skip
VLLM, SERVER = dict(generation_backend="vllm"), dict(generation_backend="vllm_server")


def config(**settings):
    return joint_config(output_dir="run", use_cpu=True, report_to="none", **settings)


def small(**settings):
    return make_config("run", **settings)


def untrained(parts=None, model="no/such/model", **settings):
    """Refused before a model loads: nobody looks for it."""
    return make_trainer("run", model=model, trainer=parts, **settings)


def joint(line, command="joint"):
    return parse([*line.split(), "--output_dir", "run", "--report_to", "none"], command)


def pooled(*words):
    return main([*words, "--output_dir", "run", "--report_to", "none"], command="pool")


def arguments(line):
    return build_arguments(*joint(line))


def own_game(**roles):
    return config(game=None, roles=roles)


def of_kinds(kinds, **settings):
    return config(**settings).with_kinds(kinds)


def from_recipe(name, **changes):
    return JointSelfPlayConfig.from_recipe(name, output_dir="run", **changes)


ROWS = [
    # numbers of a round
    *rows(config, problems_per_round=0, num_generations=0, max_tokens_per_micro_batch=-1,
        gradient_accumulation_steps=4, num_iterations=2, steps_per_round=0, max_steps=0),
    *rows(small, format_probe=-1, export_every=-1),
    row("proposals_per_round=0 =conjecturer_players", config, proposals_per_round=0),
    row("proposals_per_round=12 num_generations=(8) =~8~or~16.", config, proposals_per_round=12),
    row("proposals_per_round=8 conjecturer_num_generations=(3) =~6~or~9.", config, conjecturer_num_generations=3),
    row("proposals_per_round=8 roles.conjecturer.num_generations=(16) =~to~16.", config,
        roles={"conjecturer": {"num_generations": 16}}),
    row("proposals_per_round=7 num_generations=(4)", of_kinds, ("prover", "conjecturer"), game=None, num_generations=4,
        proposals_per_round=7, roles={"prover": {}, "conjecturer": {}}),
    row("max_tokens_per_micro_batch=256 =256~of =257~or~more", config, max_tokens_per_micro_batch=256,
        max_completion_length=256),
    row("max_tokens_per_micro_batch=20 =~7~tokens~of~prompt~and~16~of =23~or~more", make_trainer, "run",
        conjecturer_players=0, conjecturer_num_generations=None, max_tokens_per_micro_batch=20),
    row("max_tokens_per_micro_batch=1.5 =whole~number", config, max_tokens_per_micro_batch=1.5),
    row("problems_per_round=True =whole~number", config, problems_per_round=True),
    row("steps_per_round=9 =8~samples~of~the~prover", config, problems_per_round=1, steps_per_round=9),
    row("=learning_rte ='learning_rate'", config, learning_rte=1),
    *(row("prover_num_generations=1 ="+name, config, prover_objective=name, prover_num_generations=1)
      for name in ("rloo", "grpo", "dr_grpo", "cispo", "maxrl", "reinforce_half")),
    row("num_generations=4 prover_objective=pass_at_k", small, prover_objective="pass_at_k", num_generations=4),
    row("steps_per_generation=None generation_batch_size=64", config, generation_batch_size=64),
    row("save_steps=0", config, save_strategy="steps", save_steps=0),
    row("eval_steps=0", config, eval_strategy="steps", eval_steps=0),
    row("conjecturer_sequences_per_step=-1", small, **{**SEQUENCES, "conjecturer_sequences_per_step": -1}),
    row("report_every=0", joint, "--report_every 0"),
    # ranges
    *rows(config, anchor_fraction=1.5, conjecturer_learning_rate=-1e-5, learning_rate=nan,
        conjecturer_temperature=0.0, prover_temperature=inf, temperature=0.0, top_p=1.5, adam_beta2=nan,
        weight_decay=-0.1, seed=-1, beta=-1.0, entropy_coef=nan, invalid_reward=nan, unplayed_reward=1e13,
        importance_clip_low=2.0, operands=3, game=3, shuffled_rewards="yes"),
    *rows(config, operands=[1], anchor_fraction="half"),
    row("anchor_fraction=1.0", small, anchor_fraction=1.0),
    row("anchor_fraction=0.97", small, anchor_fraction=0.97),
    row("roles.conjecturer.top_k=-1", config, conjecturer_top_k=-1),
    row("target_low=50 target_high=20", config, target_low=50, target_high=20),
    row("frontier_low=0.8 frontier_high", config, frontier_low=0.8, frontier_high=0.7),
    row("=conjecturer_model_name_or_path ='conjecturer_model'", config, conjecturer_model_name_or_path="x"),
    # a value in a list of them
    *rows(config, eval_preset="paper", guard_scope="prover", fill="keep", kl_in="rewards", policy_sharing="shared",
        generation_backend="sglang", generation_rows=0, vllm_importance_sampling_mode="clip"),
    *(row(f"={wrong} ={right}", config, error=UnknownNameError, **{name: wrong}) for name, wrong, right in [
        ("conjecturer_reward", "tnet", "tent"), ("prover_objective", "rlo", "rloo"),
        ("proposer", "polices", "policies"), ("prover_prompt", "countdown_3to5", "countdown_3to4"),
        ("game", "propose_and_slove", "propose_and_solve")]),
    row("=rubrik =rubric", config, proposer="targets", guide="rubrik", error=UnknownNameError),
    row("=verifierr ='verifier'", arguments, "--reward_funcs verifierr", error=UnknownNameError),
    row("=tiny/defualt =tiny/default", from_recipe, "tiny/defualt", error=UnknownNameError),
    row("lerning_rate", from_recipe, "tiny/default", lerning_rate=1.0),
    row("roles.prover.kl_estimator=k2", config, prover_kl_estimator="k2"),
    row("generation_rows=7 =generation_backend=generate", config, generation_rows=7, **VLLM),
    *(row(f"torch_compile_backend={name}", untrained, model=None, torch_compile_backend=name)
      for name in ("inductorr", "cudagraphs")),
    *(row(f"torch_compile_mode={mode} =CUDA~graph", untrained, model=None, torch_compile=True, torch_compile_mode=mode)
      for mode in ("reduce-overhead", "max-autotune")),
    row("torch_compile_mode=max-autotun", untrained, model=None, torch_compile=True, torch_compile_mode="max-autotun"),
    # settings that nothing would read, or that another one answers
    *rows(config, loss_type="grpo", fp16=True, use_vllm=True, vllm_mode="server",
        use_transformers_continuous_batching=True, vllm_tensor_parallel_size=2, neftune_noise_alpha=5.0,
        ddp_find_unused_parameters=False, length_penalty_floor=0.0, conjecturer_objective="expert_iteration"),
    row("random_fraction=0.5", small, random_fraction=0.5),
    row("enable_jit_checkpoint=True", untrained, enable_jit_checkpoint=True),
    *(row(f"accelerator_config={name}", config, accelerator_config={name: value})
      for name, value in (("gradient_accumulation_kwargs", {"num_steps": 3}), ("split_batches", True))),
    row("transformers_continuous_batching_config=num_blocks", config,
        transformers_continuous_batching_config={"num_blocks": 8}),
    row("vllm_engine_kwargs generation_backend", config, vllm_engine_kwargs={"dtype": "float32"}),
    row("roles.prover.vllm_server_base_url=http://127.0.0.1:1", config, prover_vllm_server_base_url="http://127.0.0.1:1"),
    row("vllm_group_port=1 generation_backend", config, **VLLM, vllm_group_port=1),
    row("vllm_engine_kwargs=eager", config, **VLLM, vllm_engine_kwargs="eager"),
    row("vllm_engine_kwargs=enable_lora =policy_sharing", config, **VLLM, vllm_engine_kwargs={"enable_lora": True}),
    row("vllm_request_timeout=-1.0", config, **SERVER, vllm_request_timeout=-1.0),
    row("vllm_request_timeout=0.0", config, **SERVER, vllm_request_timeout=0.0),
    row("load_best_model_at_end=True", config, eval_strategy="steps", save_strategy="steps",
        load_best_model_at_end=True),
    row("save_only_model=True", config, save_strategy="steps", guard=True, save_only_model=True),
    *(row("dtype=float16", config, model_init_kwargs={"dtype": name}) for name in ("float16", "torch.float16",
        "half")),
    *(row("model_init_kwargs =device_map", config, model_init_kwargs=given)
      for given in ({"device_map": "auto"}, '{"device_map": {"": 0}}')),
    row("ddp_timeout=600 =3662 =vllm_request_retries", config, **SERVER, ddp_timeout=600),
    row("gradient_checkpointing_kwargs=use_reentrant", config, gradient_checkpointing=True,
        gradient_checkpointing_kwargs={"use_reentrant": True}),
    row("kl_reduction=mean", config, kl_in="reward", kl_reduction="mean"),
    row("kl_in=reward prover_objective=maxrl", config, kl_in="reward", beta=0.1, prover_objective="maxrl"),
    *(row(f"{charge}=0.1 prover_objective={name}", config, prover_objective=name, **{charge: 0.1})
      for name in ("reinforce_half", "expert_iteration", "maxrl") for charge in ("length_penalty", "soft_overlong")),
    row("roles.prover.entropy_target=0.3", config, prover_entropy_target=0.3),
    row("control=True =eval_problems", joint, "--control true --eval_problems 0"),
    row("control=True", joint, "--control true --conjecturer_players 0"),
    row("control early_stopping_patience", joint,
        "--control true --early_stopping_patience 2 --eval_strategy steps --eval_steps 1"),
    row("early_stopping_patience=2 eval_strategy", joint, "--early_stopping_patience 2"),
    row("callbacks=os:path", arguments, "--callbacks os:path --eval_problems 0"),
    row("=nowhere:Mine", arguments, "--callbacks nowhere:Mine --eval_problems 0"),
    row("problems_per_round=8 =32", small, fill="keep_all", truncate_multiple=4),
    *(row(f"fill={fill} truncate_multiple", small, fill=fill) for fill in ("truncate", "keep_all")),
    row("anchor_fraction=0.5", small, fill="none"),
    row("mixed_adapters=on", small, policy_sharing="tied", mixed_adapters="on"),
    row("guard_scope=conjecturer", small, **ALONE, policy_sharing="tied"),
    row("guard_scope=conjecturer", small, **ALONE, roles={"conjecturer": {"weights": "prover"}}),
    row("guard_scope=conjecturer =frozen", small, **ALONE, roles={"conjecturer": START}),
    row("guard_scope=conjecturer", small, **{**ALONE, "save_strategy": "no"}),
    row("prover_demonstrations_per_step=2 prover_sft_coef", config, **DEMONSTRATED | {"prover_sft_coef": 0.0}),
    row("prover_demonstrations_per_step=-1", config, **DEMONSTRATED | {"prover_demonstrations_per_step": -1}),
    row("roles.conjecturer.demonstrations_per_step=2", config, conjecturer_demonstrations_per_step=2,
        conjecturer_sft_coef=1.0),
    row("prover_stop=) =</think>", config, prover_stop=[")"], operands=[3]),
    row("conjecturer_stop=target =</problem>", config, conjecturer_stop="target", operands=[3]),
    row("shuffled_rewards=True", config, shuffled_rewards=True, roles=NOBODY),
    row("shuffled_rewards=True", config, shuffled_rewards=True, roles={"conjecturer": START}),
    row("proposer=uniform_rungs anchor_fraction=0.5", config, **{**RUNGS, "anchor_fraction": 0.5}),
    row("proposer=UniformRungs", config, **{**RUNGS, "roles": None}, operands=[3, 4]),
    row("rungs=9,", config, **{**RUNGS, "proposer_kwargs": {"rungs": [9]}}, operands=[3, 4]),
    *(row(f"=6 =20 ={name}", from_recipe, "tiny/ladder", proposer=name)
      for name in ("mutation", "ucb", "thompson", "factorized")),
    row("prover_learning_rate=1e-06 conjecturer_learning_rate=1e-07", config, policy_sharing="tied",
        conjecturer_learning_rate=1e-7),
    row("prover_temperature=1.0 conjecturer_temperature=0.7", config, policy_sharing="lora",
        conjecturer_temperature=0.7),
    row("proposer=None", pooled, "--recipe", "tiny/default"),
    # files and folders
    row("--config", joint, "--config"),
    row("=nowhere.yaml", joint, "--config nowhere.yaml"),
    row("=gone =--prepare", check_starts, "runs/pool-start/gone"),
    row("=logging", joint, "--logging_steps 0"),
    row("=no/such/model", untrained, error=DataError),
    row("prover_prompt=countdown_3to4", untrained, model=None, prover_prompt="countdown_3to4", error=PromptError),
    row("conjecturer_prompt=json", untrained, model=None, conjecturer_prompt="json", error=PromptError),
    # mappings of parts
    row("conjecturer_reward_kwargs=low=1", config, conjecturer_reward_kwargs="low=1"),
    row("domain_kwargs=operands", config, domain_kwargs={"operand": [3]}),
    row("domain_kwargs=high,", config, domain_kwargs='{"high": 7}'),
    row("prover_objective_kwargs=k=2", config, prover_objective="pass_at_k", prover_objective_kwargs="k=2"),
    row("k=2.0", config, prover_objective="pass_at_k", prover_objective_kwargs={"k": 2.0}),
    row("=rloo =k", config, prover_objective="rloo", prover_objective_kwargs={"k": 2}),
    row("low=3", config, prover_objective_kwargs={"low": 3}),
    row("repair=1", config, proposer="policies", proposer_kwargs={"repair": 1}),
    row("guide_kwargs=rounds guide", config, guide_kwargs={"rounds": 2}),
    row("guide=judge", small, **{**SGS, "guide": "judge"}),
    row("=rubric =rounds", small, **SGS, guide_kwargs={"rounds": 2}),
    # games and proposers of one's own, by name
    *(one for part in ("NoRoles", "EmptyRoles", "NoPlay", "Bare") for one in rows(config, game=OWN + part)),
    row("game=tests.refusals.own:Absent", config, game=OWN + "Absent", roles=NOBODY),
    row("=tests.refusals.own:Duel =rounds", config, game=OWN + "Duel", roles={"critic": {}}, game_kwargs={"round": 2}),
    row("rounds=0", config, game=OWN + "Duel", roles={"critic": {}}, game_kwargs={"rounds": 0}),
    row("game_kwargs={rounds", config, game=OWN + "Duel", roles={"critic": {}}, game_kwargs="{rounds"),
    row("game_kwargs=rounds game=None", config, game=None, roles={}, game_kwargs={"rounds": 2}),
    *(one for part in ("Mute", "Bare", "Critical") for one in rows(config, proposer=OWN + part)),
    row("proposer=policies", config, proposer="policies", roles=NOBODY),
    row("=critic_discernment =revisions", small, **CRITICS | {"game_kwargs": {"revision": 4}}),
    row("roles.helpful.sft_coef=0.5", small, **CRITICS | {"roles": {**CRITICS["roles"], "helpful": {**CRITIC,
        "sft_coef": 0.5}}}),
    row("prover_sft_coef=0.5 prover_objective", small, **CRITICS, prover_sft_coef=0.5, prover_objective="rest"),
    row("prover_sft_coef=-1.0", small, **CRITICS, prover_sft_coef=-1),
    # roles
    row("roles.provr={}", config, roles={"provr": {}}),
    row("roles.prover.learning_rat=learning_rate", config, roles={"prover": {"learning_rat": 1}}),
    row("roles={prover", config, roles="{prover"),
    row("roles=prover", config, roles=["prover"]),
    row("roles.prover=4", config, roles={"prover": 4}),
    row("roles.prover.players=-1", config, prover_players=-1),
    *(row(f"roles.{kind}.{name}={value}", config, roles={kind: {name: value}}) for kind, name, value in [
        ("prover", "players", 0), ("prover", "players", 1.5), ("prover", "num_generations", 0),
        ("prover", "beta", "much"), ("prover", "stop", [1]), ("conjecturer", "top_p", 1.5)]),
    row("roles.prover.each=1 roles.prover.players=2", config, roles={"prover": {"players": 2, "each": [{}]}}),
    row("roles.conjecturer.weights=prover", config, roles={"prover": {"weights": "conjecturer"},
        "conjecturer": {"weights": "prover"}}),
    row("roles.prover.weights=prover", config, prover_weights="prover"),
    row("roles.conjecturer.weights=provers", config, conjecturer_weights="provers"),
    row("roles.conjecturer.weights=prover", config, roles={"conjecturer": {"players": 2, "weights": "prover"}}),
    row("roles.guide.objective=rest", own_game, prover={}, guide=START | {"objective": "rest"}),
    row("conjecturer_learning_rate=1e-05 roles.conjecturer.weights=start", config, conjecturer_weights="start",
        conjecturer_learning_rate=1e-5),
    row("roles=start", config, prover_weights="start", conjecturer_weights="start"),
    row("conjecturer_model=x roles.conjecturer.weights=prover", config, conjecturer_weights="prover",
        conjecturer_model="x"),
    row("conjecturer_model=x", config, policy_sharing="tied", conjecturer_model="x"),
    row("prover_learning_rate=1e-06 conjecturer_learning_rate=1e-07", config, conjecturer_weights="prover",
        conjecturer_learning_rate=1e-7),
    row("roles.prover.vllm_server_base_url=http://a", config, roles={"prover": {"vllm_server_base_url": "http://a"}}),
    row("roles.x.objective_kwargs=k=4", own_game, prover={}, x={"objective_kwargs": "k=4"}),
    row("allow_changed =beat =beta", config, allow_changed="roles.prover.beat"),
    row("allow_changed =learning_rat =learning_rate", config, allow_changed="learning_rat"),
    row("allow_changed=roles.conjecturer.weights", config, allow_changed="conjecturer_weights"),
    row("allow_changed=policy_sharing", config, allow_changed="policy_sharing"),
    row("roles.misleading", of_kinds, ("prover", "helpful", "misleading"), game=None, roles={"prover": {},
        "helpful": {}}),
    row("conjecturer_beta=0.1", of_kinds, ("prover",), conjecturer_beta=0.1),
    row("roles.helpful.players=0", of_kinds, ("prover", "helpful"), game=None, roles={"prover": {},
        "helpful": {"players": 0}}),
]  # fmt: skip
