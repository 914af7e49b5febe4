"""What domains, objectives, rewards, proposers, games, guides and policies refuse."""

import copy
from functools import cache
from math import inf, nan
from types import SimpleNamespace

import numpy as np
import torch
from peft import AdaLoraConfig, IA3Config, LoHaConfig, LoraConfig, PromptTuningConfig, VeraConfig, get_peft_model

from countdown_selfplay.asking import check_generation_kwargs, check_token_ids, generation_settings
from countdown_selfplay.chat_templates import ready
from countdown_selfplay.cli.help import print_parts
from countdown_selfplay.contract.domain import BaseDomain
from countdown_selfplay.contract.game import BaseGuide, Outcome, Proposal
from countdown_selfplay.contract.round import Rollout
from countdown_selfplay.countdown import (
    CountdownDomain,
    CountdownEnvironment,
    Problem,
    ProblemSpec,
    Rules,
    features,
    generate_problems,
    heldout_problems,
    is_solvable_batch,
    parse_proposal,
    problem_from_row,
    reachable_targets,
    solvable_arrays,
    solve,
)
from countdown_selfplay.countdown.planted import planted_problems
from countdown_selfplay.countdown.rows import compact_solution
from countdown_selfplay.domains import domain_from, make_domain
from countdown_selfplay.errors import DataError, GenerationError, PromptError, RewardError, UnknownNameError
from countdown_selfplay.games import GAMES
from countdown_selfplay.games.critic_discernment import CriticDiscernment
from countdown_selfplay.games.propose_and_solve import ProposeAndSolve
from countdown_selfplay.generation.vllm_sampler import adapter_rank, check_lengths
from countdown_selfplay.guides import check_guide, checked_scores
from countdown_selfplay.guides.judge import Judge
from countdown_selfplay.guides.rubric import Rubric
from countdown_selfplay.objectives import make_objective
from countdown_selfplay.policies import build_policies
from countdown_selfplay.policies.adapters import merged
from countdown_selfplay.proposers import make_proposer
from countdown_selfplay.proposers.symbolic.difficulty import DIFFICULTIES
from countdown_selfplay.proposers.tiers import TierTracker
from countdown_selfplay.rewards import RewardContext, checked_rewards, make_conjecturer_reward
from countdown_selfplay.rewards.prover.verifier import countdown_reward, make_length_penalty, make_soft_overlong
from countdown_selfplay.testing import ScriptedRound
from countdown_selfplay.tiny import load_tiny_model
from countdown_selfplay.training.parts import declared_metrics, guard_of
from countdown_selfplay.training.round import credit
from tests.refusals.rows import row, rows, rows_of_part
from tests.refusals.settings import config
from tests.toy_domain import Sums
from tests.unit.policies.test_adapters import LORA, TASK
from tests.unit.proposers.test_tiers import DOMAIN as TIERED
from tests.unit.proposers.test_tiers import PLAYERS, tiers
from tests.unit.test_asking import ACTING, ASKED, TALK, TURNS

PLANTED = ProblemSpec((3, 4), 1, 12, 1, 99)
SUMS = "tests.toy_domain:Sums"


@cache
def tokenizer():
    return load_tiny_model()[1]


class OneThing(BaseDomain):
    """A domain that is asked for one thing alone."""

    asks = ({"size": 3},)

    def propose_row(self, size): ...


def moves(**changes):
    return CountdownDomain(**{"answers": "moves", "prover_prompt": "moves", **changes})


def checked_tiers(players, domain, **changes):
    tiers(**changes).check(players, domain)


def planned(players=1, kinds=("prover", "helpful", "misleading"), tau=None, penalty=0.0, **given):
    """What the critics' game says to a run of these players."""
    roles = {kind: SimpleNamespace(role=kind, num_generations=2, objective="rloo") for kind in kinds}
    if tau is not None:
        roles["prover"].objective, roles["prover"].objective_kwargs = "rest", {"tau": tau}
    CriticDiscernment(**given).check(
        SimpleNamespace(
            players_by_kind={kind: [kind] * players for kind in kinds},
            all_roles=roles,
            length_penalty=penalty,
        )
    )


def credited(objective="rloo", rewards=(0.0, 0.0, 1.0, 1.0), penalty=None, **more):
    penalty_B = None if penalty is None else torch.tensor(penalty)
    rollout = Rollout("prover", [{}] * 2, [""] * 4, 2, rewards_B=torch.zeros(4), penalty_B=penalty_B)
    made = make_objective(*objective) if isinstance(objective, tuple) else make_objective(objective)
    return credit(made, list, rollout, list(rewards), **more)


def adapted(peft_config):
    roles = config(prover_prompt="compact", conjecturer_prompt="compact").all_roles
    return build_policies(load_tiny_model()[0], roles, "lora", peft_config)


def unmerged(peft_config):
    return merged(get_peft_model(load_tiny_model()[0], peft_config))


def served(adapter):
    return adapter_rank(
        SimpleNamespace(weight_names=("prover",), module=SimpleNamespace(peft_config={"prover": adapter}))
    )


def asked(template, kwargs=None):
    own = copy.copy(tokenizer())
    own.chat_template = template
    return ready(own, [ASKED, TALK], kwargs)


def scored(scores):
    """Of a guide with a scale from 0 to 8, which was shown two problems."""
    guide = type("Fixed", (BaseGuide,), {"scale": (0.0, 8.0), "score": lambda *_: scores})()
    problems = [Problem((4, 9), 13), Problem((6, 7), 13)]
    proposals = [Proposal(problem, request={"target": problem}) for problem in problems]
    outcome = Outcome(proposals, np.full(2, nan), problems, [0, 1], np.ones((1, 2, 4)), ["1", "1"])
    return checked_scores(guide, ScriptedRound(lambda *_: "", {"prover": (2, 4)}, TIERED), proposals, outcome)


def guarded(**settings):
    players = {"prover": ["prover"], "conjecturer": ["conjecturer"]}
    return guard_of(config(**settings), declared_metrics(ProposeAndSolve(), players))


def rewarded(reward, rate_P=(0.5, 0.75)):
    return checked_rewards(reward, np.array(rate_P), RewardContext(attempts=8))


def guided(scores, rates):
    return make_conjecturer_reward("sgs")(np.zeros(rates), RewardContext(guide_P=np.array(scores, dtype=float)))


ROWS = [
    # problems and their domain
    *(row("=1 =100 =got", Problem, numbers, 1, error=DataError) for numbers in ((), (1,) * 101)),
    row("=0", Problem, (0, 1), 1, error=DataError),
    row("=-3", Problem, (1, -3), 1, error=DataError),
    row("=1.0", Problem, (1.0, 2), 1, error=DataError),
    row("='2'", Problem, (1, "2"), 1, error=DataError),
    row("=True", Problem, (True, 2), 1, error=DataError),
    *(row("=within", Problem, (1, number), 1, error=DataError) for number in (10**9 + 1, 10**5000)),
    row("=target =3.0", Problem, (1, 2), 3.0, error=DataError),
    row("=target =None", Problem, (1, 2), None, error=DataError),
    row("=target =within", Problem, (1, 2), 10**10, error=DataError),
    *(row("=list", Problem, numbers, 3, error=DataError) for numbers in ("12", 12, {1: 2})),
    *(row("=1 =integer", Problem, numbers, 3, error=DataError) for numbers in ([[1, 2]], np.array([[1, 2]]))),
    *rows(ProblemSpec, operands=(), number_low=0),
    row("operands=(0,)", ProblemSpec, operands=(0,)),
    row("number_low=9 number_high=8", ProblemSpec, number_low=9, number_high=8),
    row("target_low=9 target_high=8", ProblemSpec, target_low=9, target_high=8),
    *(row(f"=3 =column ='{column}'", problem_from_row, given, 3, error=DataError) for column, given in [
        ("numbers", {"target": 98}), ("numbers", {}), ("target", {"nums": [44, 19]}),
        ("nums", {"nums": [], "target": 9}), ("nums", {"nums": [1, None], "target": 9}),
        ("nums", {"nums": "44 19", "target": 9}), ("nums", {"nums": "[44, -19]", "target": 9}),
        ("nums", {"nums": "[44, 1.5]", "target": 9}), ("nums", {"nums": "[" + "1," * 500 + "1]", "target": 9}),
        ("numbers", {"numbers": [1.5], "target": 9}), ("target", {"numbers": [1], "target": nan}),
        ("target", {"numbers": [1], "target": 1e300}), ("target", {"numbers": [1], "target": "9"}),
        ("ground_truth.target", {"ground_truth": {"numbers": [1]}}),
        ("ground_truth.numbers", {"ground_truth": {"numbers": [0], "target": 1}}),
        ("ground_truth.numbers", {"ground_truth": {"target": 1}})]),
    *(row("=3: =maps", problem_from_row, given, 3, error=DataError) for given in ([1, 2], None)),
    *(row(f"n={n}", generate_problems, n=n) for n in (-1, 2.0)),
    row("split=test", generate_problems, n=1, split="test"),
    row("operands=7", generate_problems, n=1, spec=ProblemSpec(operands=(7,))),
    row("n=-1", planted_problems, n=-1, spec=PLANTED),
    row("split=test", planted_problems, n=1, spec=PLANTED, split="test"),
    row("number_high=12 value_high=5", planted_problems, n=1, spec=PLANTED, value_high=5),
    row("value_high=True", planted_problems, n=1, spec=PLANTED, value_high=True),
    row("=500 ='train'", planted_problems, 500, ProblemSpec((2, 3), 1, 2, 1, 99), 0),
    row("=10", CountdownDomain(ProblemSpec((2,), 1, 2, 1, 3)).random_text, 10, seed=0),
    row("=7 =6", heldout_problems, 7, error=DataError),
    row("=7 =6", features, Problem((1,) * 7, 7), error=DataError),
    row("=7 =6", solve, Problem((1,) * 7, 7), error=DataError),
    row("=50 =6", is_solvable_batch, [Problem((1,) * 50, 7)], error=DataError),
    row("=0 =100", reachable_targets, (), 1, 2, error=DataError),
    row("=positive =0", reachable_targets, (3, 0), 1, 2, error=DataError),
    *(row(said, solvable_arrays, np.array(numbers), np.ones(targets, int), error=DataError)
      for numbers, targets, said in [
        ([[1] * 7] * 2, 2, "=7 =6"), ([[1.0] * 3] * 2, 2, "=float64"), ([[0] * 3] * 2, 2, "=positive"),
        ([1, 1, 1], 2, "=dimensions"), ([[10**10] * 3] * 2, 2, "=within"), ([[1] * 3] * 2, 3, "=2 =3")]),
    row("=1,2,3,4=100", compact_solution, Problem((1, 2, 3, 4), 100), error=DataError),
    *(row(f"={next(iter(given))}", Rules.from_dict, given) for given in [
        {"answer_rule": "best"}, {"answer_format": "xml"}, {"max_chars": 0}, {"max_chars": 5000},
        {"max_chars": 256.0}, {"use_all": 1}, {"score_wrong": nan}, {"score_wrong": "0.1"}, {"score_tagged": inf},
        {"answer": "last"}]),
    row("=compct ='compact'", CountdownDomain, prover_prompt="compct", error=UnknownNameError),
    row("=xml", CountdownDomain, conjecturer_prompt="xml", error=UnknownNameError),
    row("=compct ='compact'", parse_proposal, "", "compct", error=UnknownNameError),
    row("answers=turns", CountdownDomain, answers="turns"),
    row("answers=moves prover_prompt=countdown_3to4", CountdownDomain, answers="moves"),
    row("prover_prompt=compact_moves answers=whole", CountdownDomain, prover_prompt="compact_moves"),
    row("use_all=False", moves, rules=Rules(use_all=False)),
    row("answer_rule=any", moves, rules=Rules(answer_rule="any")),
    *rows(moves, admit_unsolvable=True, value_high=0),
    row("number_high=99 value_high=50", moves, value_high=50),
    row("demonstrations_per_step answers=whole", CountdownDomain(prover_prompt="compact").demonstrations, 1, 0),
    row("=target", CountdownEnvironment().reset, numbers=[1, 2], error=DataError),
    row("reset", CountdownEnvironment().submit, "1 + 2", error=RuntimeError),
    row("=contdown ='countdown'", make_domain, "contdown", error=UnknownNameError),
    row("=no_such.module:Sums", make_domain, "no_such.module:Sums"),
    row("=tests.toy_domain ='Sum' ='Sums'", make_domain, "tests.toy_domain:Sum", error=UnknownNameError),
    row("=hihg =high", make_domain, SUMS, {"hihg": 7}),
    row("domain_kwargs=[7]", make_domain, SUMS, "[7]"),
    row("domain_kwargs=high", make_domain, SUMS, "high"),
    row("=tests.toy_domain:Sums =operands", lambda: domain_from(config(domain=SUMS, operands=[3]))),
    # objectives, rewards and what is credited
    row("=grpo =epsilon =epsilon_low", make_objective, "grpo", {"epsilon": 0.2}),
    row("epsilon_low=2.0 =cispo", make_objective, "cispo", {"epsilon_low": 2.0}),
    row("decay=1.0", make_objective, "rae", {"decay": 1.0}),
    row("k=0", make_objective, "pass_at_k", {"k": 0}),
    row("k=4", make_objective("pass_at_k", {"k": 4}).advantages, torch.ones(1, 4), torch.ones(1, 4), error=ValueError),
    row("rounds=0", make_objective, "rest", {"rounds": 0}),
    row("rounds=0", make_objective, "expert_iteration", {"rounds": 0}),
    row("all_kept", make_objective, "rest", {"all_kept": True}),
    row("=prover =(3,)", credited, rewards=[1.0, 0.0, 0.0], error=RewardError),
    row("=prover =2)", credited, rewards=[[1.0, 0.0], [0.0, 1.0]], error=RewardError),
    row("=prover =2 =inf", credited, rewards=[0.0, 0.0, inf, 0.0], error=RewardError),
    row("=1 =-inf", credited, penalty=[0.0, inf, 0.0, 0.0], error=RewardError),
    row("=correct =(5,)", credited, correct_B=[1.0] * 5, error=RewardError),
    row("=kept =(2,)", credited, kept_B=[True] * 2, error=RewardError),
    row("group=3", credited, group=3),
    row("=PassAtK =3 =2", credited, ("pass_at_k", {"k": 2})),
    row("=lo =low", make_conjecturer_reward, "binary_band", {"lo": 0.1}),
    row("=low=0.9 =high=0.1", make_conjecturer_reward, "binary_band", {"low": 0.9, "high": 0.1}),
    row("top_share=2", make_conjecturer_reward, "sgs", {"top_share": 2}),
    *(row(f"{name}=some", make_conjecturer_reward, "sgs", {name: "some"}) for name in ("top_of", "starved")),
    row("=2 =3", guided, (1, 2), 3, error=RewardError),
    row("=inf =1 =0.750", rewarded, lambda p, ctx: np.where(p > 0.5, inf, 0.0), error=RewardError),
    row("=(1,) =2", rewarded, lambda p, ctx: [1.0], error=RewardError),
    row("=<lambda> ='x'", rewarded, lambda p, ctx: "x", error=RewardError),
    *(row(names, countdown_reward, ["1"] * 4, **columns, error=DataError) for names, columns in [
        ("=numbers", {}), ("=0 ='target'", {"numbers": [[3, 4]] * 4}), ("=0 ='numbers'", {"target": [7] * 4}),
        ("='numbers' =3 =4", {"numbers": [[3, 4]] * 3, "target": [7] * 4}),
        ("=3 ='numbers'", {"numbers": [[3, 4]] * 3 + [[]], "target": [7] * 4}),
        ("=0 ='ground_truth.target'", {"ground_truth": [{"numbers": [3]}] * 4})]),
    *(row(f"alpha={alpha}", make_length_penalty, alpha, 10) for alpha in (-0.1, nan, inf)),
    row("max_length=0", make_length_penalty, 0.1, 0),
    *(row(f"share={share}", make_soft_overlong, share, 10) for share in (0.0, -0.2, 1.1, nan)),
    row("max_length=0", make_soft_overlong, 0.2, 0),
    # proposers
    row("repair=Sums", make_proposer("policies", {"repair": True}).check, {"conjecturer": ["conjecturer"]}, Sums()),
    row("='policies' =low =repair", make_proposer, "policies", {"low": 0.1}),
    row("='tiers' =hgih, =mid", make_proposer, "tiers", {"hgih": 1, "low": 0.1, "mid": 2}),
    *rows_of_part(make_proposer, "targets", batch=0, conditioned="yes"),
    row("low=0.7 high=0.2", TierTracker, [0], top=1, low=0.7, high=0.2),
    row("high=1.5", TierTracker, [0], top=1, high=1.5),
    row("start=[3,", tiers, start=[3, 7]),
    row("start=[]", tiers, start=[]),
    row("=3 =2", tiers, start=[3, 4, 4], floor=3, ceiling=4),
    row("floor=5 ceiling=4", tiers, floor=5, ceiling=4),
    row("low=0.7 high=0.2", tiers, low=0.7, high=0.2),
    row("levels", tiers, axis="rung"),
    row("=2 =3", checked_tiers, {**PLAYERS, "conjecturer": ["a", "b", "c"]}, TIERED),
    row("min_valid", checked_tiers, {"conjecturer": []}, TIERED, min_valid=0),
    row("operands=6", checked_tiers, PLAYERS, TIERED, ceiling=6),
    row("propose_row", checked_tiers, PLAYERS, OneThing()),
    *rows_of_part(make_proposer, "ucb", discount=0, exploration=-1, pulls=0),
    row("window discount", make_proposer, "ucb", {"window": 3, "discount": 0.9}),
    row("pulls=8 candidates=4", make_proposer, "ucb", {"candidates": 4}),
    *rows_of_part(make_proposer, "mutation", candidates=1.5, archive_seeds=2, features=21, played_labels=1,
        selection="best"),
    row("features=learned", make_proposer, "mutation", {"features": "learned"}),
    row("=lo ='low'", make_proposer, "mutation", {"selection_kwargs": {"lo": 0.1}}),
    row("='replay' =size", make_proposer, "mutation", {"replay": {"size": 3}}),
    row("='guess'", make_proposer, "mutation", {"difficulty": "guess"}, error=UnknownNameError),
    row("='rollout' =k", make_proposer, "mutation", {"difficulty_kwargs": {"k": 8}}),
    row("baseline=2", make_proposer, "factorized", {"baseline": 2}),
    row("played_labels=rollout", make_proposer, "mutation", {"played_labels": True}),
    row("='mutation' =arms", make_proposer, "mutation", {"arms": 3}),
    *(row(f"{name}={value}", make_proposer, "mutation", {where: {name: value}})
      for where, name, value in [
        ("selection_kwargs", "low", 0.7), ("selection_kwargs", "diversity", -1),
        ("selection_kwargs", "temperature", 0), ("replay", "capacity", 0), ("replay", "softness", "soft")]),
    row("mutations=Sums", make_proposer("mutation", {}).propose, ScriptedRound(lambda *_: "", {"prover": (2, 4)},
        Sums()), []),
    *(row(next(iter(given)), DIFFICULTIES.make, "predictor", given) for given in [
        {"trees": 0}, {"leaves": 1}, {"least": 3}, {"learning_rate": -1}]),
    # games and guides
    row("roles.prover.players=2", planned, players=2),
    row("=roles.helpful =roles.misleading", planned, kinds=("prover",)),
    row("=0.75 =0.5", planned, tau=0.75),
    row("=0.5 =eta", planned, tau=0.5, first_credit="answer"),
    row("length_penalty=0.1", planned, penalty=0.1),
    row("eta=-1", GAMES.make, "critic_discernment", {"eta": -1}),
    row("first_credit=both", GAMES.make, "critic_discernment", {"first_credit": "both"}),
    row("=proposers ='proposer'", print_parts, "proposers", error=UnknownNameError),
    row("=tier ='tiers'", print_parts, "proposer", "tier", error=UnknownNameError),
    *(row(said, scored, scores, error=RewardError) for scores, said in [
        ("good", "score='good'"), (["good", "bad"], "score=bad"), ([1.0], "=2"), (nan, "score='nan'"),
        ([1.0, 8.5], "=8.5 =6,7=13"), ([-1.0, 2.0], "=-1 =4,9=13"), ([inf, 2.0], "=inf")]),
    row("guide roles.guide", check_guide, "`guide` (judge)", Judge(), {"prover": ["prover"]}),
    row("roles.guide judge", check_guide, "`guide` (rubric)", Rubric(), {"guide": ["guide"]}),
    row("guide=BaseGuide", check_guide, "`guide`", object(), {}),
    row("guide score", check_guide, "`guide`", BaseGuide(), {}),
    *(row(said, guarded, guard_trips=trips) for trips, said in [
        ({"prover/entropie": [0.1, None]}, "='prover/entropie' ='prover/entropy'"),
        ({"critic/entropy": [0.1, None]}, "='critic/entropy'"), ({"time/round": [0, 9]}, "='time/round'"),
        ("{", "guard_trips={"), ("[1]", "guard_trips=[1]"), ({"prover/entropy": 0.1}, "guard_trips=(0.1) =ends"),
        ({"prover/entropy": [0.1]}, "guard_trips=[0.1] =ends"),
        ({"prover/entropy": ["a", 1]}, "guard_trips='a' =numbers"),
        ({"prover/entropy": [True, 1]}, "guard_trips=True =numbers"),
        ({"prover/entropy": [2, 1]}, "guard_trips =[2, =between"),
        ({"prover/entropy": [nan, 1]}, "guard_trips=nan =between"),
        ({"prover/entropy": [inf, None]}, "guard_trips=inf =between")]),
    # policies and what samples
    *(row(f"peft_config={made.__class__.__name__}", adapted, made) for made in [
        LoHaConfig(r=4, target_modules=["q_proj"], **TASK), VeraConfig(r=8, target_modules=["q_proj"], **TASK),
        IA3Config(**TASK), PromptTuningConfig(num_virtual_tokens=4, **TASK), AdaLoraConfig(total_step=9, **TASK),
        {"r": 4}]),
    row("peft_config=SEQ_CLS", adapted, LoraConfig(**LORA | {"task_type": "SEQ_CLS"})),
    row("peft_config=head", adapted, LoraConfig(**LORA | {"target_modules": ["lm_head"]})),
    row("peft_config=tied", adapted, LoraConfig(**LORA | {"target_modules": ["embed_tokens"]})),
    row("peft_config=pissa", adapted, LoraConfig(**LORA, init_lora_weights="pissa")),
    row("=PROMPT_TUNING", unmerged, PromptTuningConfig(num_virtual_tokens=4, **TASK)),
    row("use_dora=True", served, LoraConfig(use_dora=True)),
    row("=49 =16 =64 =prover/1", check_lengths, "prover/1", 49, 16, 64, error=GenerationError),
    *(row(f"={said}", asked, template, error=PromptError) for said, template in [
        ("(never)", "{{ raise_exception('never') }}"), ("UndefinedError", TURNS + "{{ missing.names }}"),
        ("TemplateSyntaxError", "{% for m in messages %}"), ("ZeroDivisionError", TURNS + "{{ 1 // 0 }}"),
        ("system's", "<fixed>"), ("system's", "Be brief. 2 + 2 ?"), ("template", None),
        ("turn", "{% if messages | length > 2 %}{{ raise_exception('one turn') }}{% endif %}" + TURNS),
        ("answers", TURNS + "{% if messages[-1].role == 'assistant' %}{{ raise_exception('no answers') }}{% endif %}"),
    ]),
    *(row("chat_template_kwargs", asked, TURNS, {name: True}) for name in ("messages", "tokenize",
        "add_generation_prompt", "two words")),
    *(row(f"generation_kwargs={name}", check_generation_kwargs, {name: value}) for name, value in [
        ("temperature", 0.1), ("top_p", 0.1), ("top_k", 0.1), ("min_p", 0.1), ("seed", 0.1), ("max_new_tokens", 3),
        ("num_return_sequences", 2), ("stop_strings", ["x"]), ("do_sample", 1), ("num_beams", 1),
        ("penalty_alpha", 1), ("nonsense", 1), ("guidance_scale", 1), ("forced_eos_token_id", 1), ("eos_token_id", 1),
        ("suppress_tokns", [5]), ("typical_p", 2), *((name, "x") for name in ACTING),
        *((name, None) for name in ACTING)]),
    row("generation_kwargs=[1]", check_generation_kwargs, "[1]"),
    row("generation_kwargs=typical_p =generation_backend=vllm", check_generation_kwargs, {"typical_p": 0.5}, "vllm"),
    *(row(f"={next(iter(given))} =98", check_token_ids, given, 99) for given in [
        {"suppress_tokens": [99]}, {"begin_suppress_tokens": [-1]}, {"suppress_tokens": [1.5]},
        {"bad_words_ids": [[3, 99]]}, {"sequence_bias": [[[99], 1.0]]}]),
    row("min_new_tokens=9 =8", generation_settings, {"max_new_tokens": 8,
        "generation_kwargs": {"min_new_tokens": 9}}, [1], 0),
]  # fmt: skip
