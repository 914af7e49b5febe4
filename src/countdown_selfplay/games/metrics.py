"""Metrics of the propose-and-solve round and of the critic game. A metric without a value is left out, never 0."""

from math import inf

from ..contract.metric import HIDDEN, SHARE, Metric, Panel

_SOLVE_RATE = Panel("Solve rate of the problems", SHARE, "Curriculum")
_EXTREMES = Panel("Too easy, too hard", SHARE, "Curriculum")
_PLAYED = Panel("Problems played", (0, 1), "Curriculum")
_PROPOSALS = Panel("The conjecturer's proposals", SHARE, "Curriculum")
_CONJECTURER = Panel("Conjecturer's reward", (), "Curriculum")
_PROVER = Panel("Prover's reward", (), "Prover")

BY_AXIS = (
    Metric(
        "round/<axis>_<value>_proposed",
        "Proposals of the round whose problem has this value on this axis (Countdown: `rung_4`, four numbers; "
        "`target_13-25`, a target in this band), played or not. A conjecturer that climbs moves from rung to rung, "
        "and may leave a part of another axis meanwhile. Rungs: of domains with several.",
        absent=0,
        panel=HIDDEN,
    ),
    Metric(
        "round/<axis>_<value>_played",
        "Problems of this value that were played in the round, proposals, anchors and random ones together.",
        absent=0,
        panel=HIDDEN,
    ),
    Metric(
        "round/<axis>_<value>_solve_rate",
        "Mean p over the played problems of this value. It rises, from the easiest rung on; not comparable between "
        "runs, for a conjecturer chooses the easy problems of a rung: compare `eval_pass@<k>/<axis>_<value>`.",
        panel=HIDDEN,
    ),
)

ANSWERS = (
    Metric(
        "{prover}/correct_rate",
        "Share of answers that the verifier accepts, conjectured and anchor problems together; it rises. Not "
        "comparable between runs with other curricula: compare `eval_pass@k`.",
        word="solved",
        panel=Panel("Correct answers", SHARE, "Prover"),
        subject="share of correct answers",
    ),
    Metric(
        "{prover}/format_rate",
        "Share of answers that can be read, right or wrong (of Countdown: that are a legal expression); absent for a "
        "domain whose verdicts have no `vote`. Low: the format is lost.",
        healthy=(0.5, inf),
        cure="Ask in the words that the model has learned to answer, or warm-start it (`countdown-selfplay sft`).",
        legible=True,
        panel=Panel("Answers that can be read", SHARE, "Prover"),
        subject="share of readable answers",
    ),
    Metric("{prover}/reward", "Mean of the summed reward functions; it rises.", finite=True, panel=_PROVER.of("mean")),
    Metric("{prover}/reward_std", "Standard deviation of the summed reward functions.", panel=_PROVER.of("std")),
    Metric(
        "{prover}/zero_signal_groups",
        "Share of groups whose advantages are all 0: all answers of a group right or all wrong. High: the "
        "difficulty is off.",
        healthy=(-inf, 0.5),
        cure="Change the difficulty of the problems or the conjecturer's reward, or raise `num_generations`.",
        panel=Panel("Groups without signal", SHARE, "Prover"),
        subject="share of groups without signal",
    ),
    Metric(
        "{prover}/sampled_entropy",
        "Entropy of the policy per token of all sampled answers to problems of the data set (targets, anchors), nats: "
        "minus the mean log-prob of the sampled tokens, which is an unbiased estimate under the policy that sampled. "
        "Unlike `{role}/entropy` it does not depend on what the objective trains on, so it compares objectives (SGS, "
        "figures 7 and 11). Absent where no log-probs are taken at sampling: with `reuse`, and with `steps_per_round` "
        "1 without an engine that reports them.",
        panel=Panel("Entropy of sampled answers (nats per token)", (0,), "Prover"),
    ),
    Metric(
        "{prover}/unchecked_rate",
        "Share of answers without a verdict of the checker: it timed out, its process died, it raised, or the time of "
        "the batch was up; they count as not correct. Of domains that check in separate processes "
        "(`math_qa`). SGS keeps its verifier's errors under 0.01 (appendix B).",
        healthy=(-inf, 0.01),
        cure="Raise the domain's `deadline` or `workers` (`domain_kwargs`).",
        panel=Panel("Answers without a verdict", (0, 0.1), "Prover"),
        subject="share of answers without a verdict",
    ),
    Metric(
        "{prover}/several_answers_rate",
        "Share of answers with more than one answer tag. High: the model does not stop; one 0.5B run had 0.87.",
        healthy=(-inf, 0.01),
        cure="Set the model's end token, or a stop string (`prover_stop`).",
        panel=Panel("Answers with several tags", (0, 0.1), "Prover"),
        subject="share of answers with several tags",
    ),
)

ROUND = (
    Metric(
        "round/starved",
        "1 if no conjectured problem was played in the round, else 0; absent without a conjecturer. 1: the "
        "conjecturer had nothing to be rewarded for. Allen and Ståblein ran with this at 0.71 without noticing.",
        healthy=(0, 0),
        in_a_row=20,
        cure="Ask in the words that the model has learned to answer, or warm-start it on problems that the domain "
        "admits (`countdown-selfplay sft --role conjecturer`).",
        panel=Panel("Starved rounds", SHARE, "Curriculum", "starved"),
        subject="share of starved rounds",
    ),
    Metric(
        "round/solve_rate_mean",
        "Mean p over conjectured problems; 0.2 to 0.6 is good. Near 1: collapse to too easy (Allen and Ståblein's "
        "aggressive binary run). Near 0: too hard (anchored shaped: 0.17). A repeated problem counts as often as it "
        "is played: once, or with `duplicate_proposals: keep` each time.",
        healthy=(0.1, 0.8),
        trip=(0.01, 0.99),
        word="solve rate",
        cure="Near 1: take a `conjecturer_reward` that pays less for easy problems. Near 0: ask for easier ones, or "
        "warm-start the prover.",
        panel=_SOLVE_RATE.of("conjectured"),
        subject="solve rate of conjectured problems",
    ),
    Metric(
        "round/solve_rate_std",
        "Standard deviation of p over conjectured problems. 0: all proposals are alike.",
        healthy=(0.15, inf),
        cure="Raise the conjecturer's temperature or entropy coefficient (of a symbolic proposer: `diversity`).",
        panel=Panel("Spread of the solve rates", (0,), "Curriculum", "std"),
        subject="spread of solve rates",
    ),
    Metric(
        "round/solve_rate_histogram",
        "Conjectured problems by how many of the attempts solved them: counts for 0, 1, ... all attempts, or for "
        "tenths of p from 33 attempts on (only in `metrics.jsonl`). Mass in the middle is good; two piles at 0 and 1 "
        "give no gradient to the prover.",
        panel=HIDDEN,
    ),
    Metric(
        "round/too_easy_share",
        "Share with p >= `easy_above` (0.8). See `round/solve_rate_mean`.",
        healthy=(-inf, 0.3),
        cure="Take a `conjecturer_reward` that pays less for easy problems.",
        panel=_EXTREMES.of("easy"),
        subject="share of problems that are too easy",
    ),
    Metric(
        "round/too_hard_share",
        "Share with p < 0.05. See `round/solve_rate_mean`.",
        healthy=(-inf, 0.3),
        cure="Ask for easier problems, or warm-start the prover.",
        panel=_EXTREMES.of("hard"),
        subject="share of problems that are too hard",
    ),
    Metric(
        "round/anchor_solve_rate_mean",
        "Mean p over anchor problems; it rises slowly. Falls while `round/solve_rate_mean` rises: the prover forgets "
        "the data set's distribution.",
        panel=_SOLVE_RATE.of("anchors"),
    ),
    Metric(
        "round/anchor_slots",
        "Problems from the data set played, with `random_fraction` those of the solver too. Above its minimum: the "
        "rest of the slots was padded with anchors.",
        panel=_PLAYED.of("anchors"),
    ),
    Metric(
        "round/frontier_share",
        "Share of the players' played problems whose p lies between `frontier_low` and `frontier_high`: what "
        "conjecturers are trained on; absent without a frontier. 0: they learn nothing (Multimodal LLM Self-Play saw "
        "it with `solve_rate_over: provers`).",
        panel=Panel("Problems that conjecturers are trained on", SHARE, "Curriculum", "share"),
    ),
    Metric(
        "round/unsolvable_share",
        "Share of the played proposals that have no solution; with `admit_unsolvable` only. High: conjecturers write "
        "random numbers, and tiers go down for a reason that is not difficulty.",
        panel=Panel("Played problems without a solution", SHARE, "Curriculum", "share"),
    ),
    Metric(
        "round/random_slots",
        "Problems that the exact solver generated in the round (`random_fraction`).",
        panel=_PLAYED.of("random"),
    ),
    Metric(
        "round/mastered_problems",
        "Problems with as many correct answers as `expert_iteration` asks for; it grows. Reaches the size of the data "
        "set: learning stops.",
        panel=Panel("Mastered problems", (0,), "Curriculum", "problems"),
    ),
)

PROPOSALS = (
    Metric(
        "{conjecturer}/parseable_rate",
        "A problem could be read from the text. Under 0.5 the format is lost.",
        healthy=(0.7, inf),
        trip=(0.5, 1),
        cure="Ask in the words that the model has learned to answer, or warm-start it (`countdown-selfplay sft --role "
        "conjecturer`).",
        legible=True,
        panel=_PROPOSALS.of("parseable"),
        subject="share of readable proposals",
    ),
    Metric(
        "{conjecturer}/in_range_rate",
        "Operand count, operands and target in range; near `parseable_rate` is good. Low: the prompt's "
        "ranges are ignored.",
        panel=_PROPOSALS.of("in range"),
        subject="share of proposals in range",
    ),
    Metric(
        "{conjecturer}/solvable_rate",
        "In range, and the exact solver finds a solution. Above the share of random problems that are "
        "solvable is good (operands 1-99, targets 10-100: 3.6% with three, 13.5% with four). At that "
        "floor: proposals are random numbers.",
        word="solvable",
        panel=_PROPOSALS.of("solvable"),
        subject="share of solvable proposals",
    ),
    Metric(
        "{conjecturer}/unique_rate",
        "Distinct problems / parsed proposals. Falls: mode collapse, which `round/solve_rate_mean` shows only with "
        "`duplicate_proposals: keep`.",
        healthy=(0.5, inf),
        cure="Raise the conjecturer's temperature or entropy coefficient.",
        panel=_PROPOSALS.of("unique"),
        subject="share of distinct proposals",
    ),
    Metric(
        "{conjecturer}/contamination_rate",
        "Proposals that are held-out problems; they are refused. High: held-out problems are guessed often, for the "
        "space is small.",
        healthy=(-inf, 0.05),
        cure="Ask for problems of which there are more.",
        panel=Panel("Proposals that are held-out problems", (0, 0.1), "Curriculum", "share"),
        subject="share of proposals that are held-out problems",
    ),
    Metric(
        "{conjecturer}/admitted_rate",
        "Solvable, of the requested operand count, not held out, no repeat (with `duplicate_proposals: keep` repeats "
        "too), novel; well above 0 is good. 0 is a starved round.",
        panel=_PROPOSALS.of("admitted"),
        subject="share of admitted proposals",
    ),
    Metric(
        "round/conjectured_slots",
        "Conjectured problems played; slots minus anchor slots is good. Few: not enough proposals are admitted. "
        "Sample more of them (`proposals_per_round`).",
        word="played",
        panel=_PLAYED.of("conjectured"),
        subject="number of conjectured problems played",
    ),
    Metric(
        "{conjecturer}/played_rate",
        "Got a slot; near `admitted_rate` is good. Much under it: more proposals than slots; those without a slot get "
        "no reward and no credit (KL and entropy terms act on them).",
        panel=_PROPOSALS.of("played"),
        subject="share of played proposals",
    ),
    Metric(
        "{conjecturer}/played_rate_operands_<k>",
        "Of the proposals with this requested operand count, the share that got a slot; with several operand "
        "counts only, absent in a round without such a request. Slots go to the counts in turn, so a low one "
        "says that few proposals of its count are admitted.",
        panel=Panel("Played, of the proposals for an operand count", SHARE, "Curriculum", "<k> operands"),
    ),
    Metric(
        "{conjecturer}/rolled_back",
        "1 in a round after which the guard took the conjecturer alone back to a checkpoint (`guard_scope: "
        "conjecturer`); absent under `guard_scope: run`. Often 1: its learning rate is too high or its KL too weak.",
        healthy=(0, 0),
        cure="Lower the conjecturer's learning rate, or raise its beta.",
        panel=Panel("Rollbacks of a conjecturer", SHARE, "Curriculum"),
        subject="share of rounds that rolled a conjecturer back",
    ),
    Metric(
        "{conjecturer}/reward",
        "Mean over proposals that have a reward.",
        finite=True,
        panel=_CONJECTURER.of("mean"),
        subject="mean reward of proposals",
    ),
    Metric(
        "{conjecturer}/reward_std",
        "Standard deviation over proposals that have a reward. 0: no gradient.",
        panel=_CONJECTURER.of("std"),
    ),
    Metric(
        "round/reward_<part>",
        "Mean of a part of the conjecturer's reward over the proposals that were played; of `sgs` `r_solve` (at most "
        "7/8 with 8 attempts), `r_guide` (at most 8) and their product `r_synth` before it is normalised (SGS, "
        "figure 3). `r_guide` falls: the problems lose touch with their targets. `r_solve` at 0: starved.",
        panel=Panel("What a synthetic problem earns", (0,), "Curriculum", "<part>"),
    ),
)

METRICS = (*ANSWERS, *ROUND, *BY_AXIS, *PROPOSALS)

OF_WRONG = ("corrected", "not_corrected")
OF_RIGHT = ("resisted", "kept", "misled", "unclear")
"""Outcomes of the revisions of wrong and of right answers."""

_WINS = Panel("Who wins", SHARE, "Critic game")
_RIGHT = Panel("Revisions of right answers", SHARE, "Critic game")

REVISIONS = (
    Metric(
        "{prover}/success_rate",
        "Share of revisions that end with a correct answer: a wrong one was corrected, or a correct one kept. "
        "It rises, unless the misleading critic gains faster.",
        word="discerned",
        panel=_WINS,
        subject="share of revisions that end with a correct answer",
    ),
    Metric(
        "{prover}/corrected_rate",
        "Of revisions of wrong answers, the share that corrects them.",
        panel=Panel("Revisions of wrong answers", SHARE, "Critic game", "corrected"),
    ),
    Metric(
        "{prover}/resisted_rate",
        "Of revisions of right answers, the share that says once that the critique is not critical. Near 1 while "
        "`prover/corrected_rate` falls: the prover rejects every critique.",
        panel=_RIGHT.of("resisted"),
    ),
    Metric(
        "{prover}/kept_rate",
        "Of revisions of correct answers, the share that is correct again.",
        panel=_RIGHT.of("kept"),
    ),
    Metric(
        "{prover}/misled_rate",
        "Of revisions of correct answers, the share that is wrong. High: the prover follows every critique.",
        healthy=(-inf, 0.5),
        cure="Train the misleading critic less (its learning rate, its samples), or the prover more.",
        panel=_RIGHT.of("misled"),
        subject="share of right answers that are given up",
    ),
)


def _read_rate(critic: str, meaning: str) -> Metric:
    return Metric(
        f"{{{critic}}}/read_rate",
        meaning,
        healthy=(0.5, inf),
        cure="Start from weights that know the game: for the embedded model run `countdown-selfplay cdg --prepare`.",
        legible=True,
        panel=Panel("Critiques that can be read", SHARE, "Critic game"),
        subject=f"share of {critic} critiques that can be read",
    )


CRITIQUES = (
    Metric(
        "{helpful}/win_rate",
        "Share of revisions after its critiques that mend the answer; 0: it does not help.",
        panel=_WINS,
    ),
    _read_rate("helpful", "Share of its critiques that the prover could be shown. Low: the format is lost."),
    Metric(
        "{misleading}/win_rate",
        "Share of revisions after its critiques that give up a right answer. It falls as the prover learns, and rises "
        "as the critic does.",
        word="misled",
        panel=_WINS,
        subject="share of right answers that the critic talks away",
    ),
    _read_rate("misleading", "As `helpful/read_rate`."),
)

CRITIC_METRICS = (*ANSWERS, *REVISIONS, *CRITIQUES)
