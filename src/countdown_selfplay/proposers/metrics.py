"""Metrics of the proposers. A metric without a value is left out, never 0."""

from math import inf

from ..contract.metric import HIDDEN, SHARE, Metric, Panel

REPAIRED = Metric(
    "proposer/repaired_rate",
    "Share of all proposals that were in range and not known to be solvable, and are played with a planted target "
    "(policies with `repair`). In moves nobody asks whether a proposal is solvable: all that are in range.",
    panel=Panel("Repaired proposals", SHARE, "Curriculum", "share"),
)

RUNGS = (
    Metric(
        "proposer/rung_mean",
        "Mean rung of the round's proposals (Countdown: numbers in a problem). A curriculum that climbs raises it; "
        "uniform rungs keep it at the middle of the range.",
        panel=Panel("Mean rung of the proposals", (), "Curriculum", "rung"),
    ),
    Metric(
        "proposer/value_<rung>",
        "What the proposer thinks of a rung, after the round. bandit_rungs: running mean of the unbiased p(1 - p), at "
        "most 1/4 in the mean; ucb_rungs, thompson_rungs: mean of 4p(1 - p) over its pulls, in [0, 1]; oracle_rungs: "
        "the solve rate that was measured apart (half), or the gain of the table (gain).",
        panel=Panel("What the proposer thinks of a rung", (0,), "Curriculum", "rung <rung>"),
    ),
)

TIERS = (
    Metric(
        "valid_conjecture_rate",
        "Share of all conjecturers' texts that hold a problem (Multimodal LLM Self-Play's name): "
        "`<conjecturer>/parseable_rate` over all of them. It rose from .30 to .56 in the paper.",
        panel=Panel("Valid conjectures", SHARE, "Pool", "share"),
    ),
    Metric(
        "tier_<k>_operand_count",
        "Operands that tier k requests after the round (Multimodal LLM Self-Play's name). It follows the provers up; "
        "a tier that alternates every round is between two rungs: `window` and `hysteresis` stabilise it.",
        panel=Panel("Operands of tier <k>", (), "Pool", "operands"),
    ),
    Metric(
        "tier_<k>_rung",
        "Rung of tier k on its ladder after the round; 0 is the easiest rung.",
        panel=Panel("Rungs of the tiers", (0,), "Pool", "tier <k>"),
    ),
    Metric(
        "tier_<k>_supplement",
        "Problems made by a rule in the round, because the tier's conjecturer wrote fewer than `min_valid` that may "
        "be played. 0 is good; at `min_valid` the conjecturer writes none.",
        panel=Panel("Problems made by a rule", (0,), "Pool", "tier <k>"),
    ),
    Metric(
        "prover_pass_rate_tier_<k>",
        "Mean p over the problems of tier k, those made by a rule included (Multimodal LLM Self-Play's name); absent "
        "in a round without any. Above `high` the tier becomes harder, below `low` easier.",
        panel=Panel("Pass rate of tier <k>", SHARE, "Pool", "pass rate"),
    ),
    Metric(
        "mean_prover_pass_rate",
        "Mean p over the problems of all tiers (Multimodal LLM Self-Play's name): `round/solve_rate_mean`, from .16 "
        "to .50 in the paper. Not comparable between rounds with other tiers.",
        panel=Panel("Mean pass rate", SHARE, "Pool", "pass rate"),
    ),
    Metric(
        "copied_example_rate",
        "Share of all conjecturers' texts that copy a worked example of the prompt; they are refused. High in early "
        "rounds in Multimodal LLM Self-Play, until its prompt forbade it.",
        healthy=(0.0, 0.1),
        cure="Ask in words without worked examples, or raise the conjecturers' temperature.",
        panel=Panel("Copied examples", SHARE, "Pool", "share"),
        subject="share of texts that copy a worked example",
    ),
)

BINS = 10
"""Number of equal parts into which a solved target's history is divided (SGS, figure 5)."""

LAST_SOLVED = 300
"""Number of targets, those solved last, whose histories are averaged (SGS, figure 5)."""

STORIES = "targets.json"
"""File of a run folder. `solved`: [target, round that solved it, a digit per earlier attempt: 1 with a trainable
synthetic problem, else 0] of the LAST_SOLVED targets. `aside`: the unsolvable problems."""

_COUNTS = Panel("Targets", (0,), "Targets")
_SYNTHETIC = Panel("Synthetic problems to train on", (0,), "Targets")
_SIZE = Panel("Size of the synthetic problems", (), "Targets")
_COMPLEX = Panel("Complex synthetic problems", SHARE, "Targets")

TARGETS = (
    Metric(
        "targets/solve_rate",
        "Cumulative solve rate: share of the targets with a right answer in this round or an earlier one (SGS, "
        "figure 1). It never falls. Flat: the rest is out of reach.",
        word="targets",
        panel=HIDDEN,
        subject="share of targets solved so far",
    ),
    Metric(
        "targets/unsolved",
        "Targets that no answer has solved so far; each gets synthetic problems.",
        panel=_COUNTS.of("unsolved"),
    ),
    Metric(
        "targets/attempted",
        "Share of the targets that were attempted so far. Until it is 1, a round of a `batch` solves targets that "
        "nobody had tried: fits of the solve rate begin there.",
        panel=Panel("Targets attempted so far", SHARE, "Targets", "share"),
    ),
    Metric(
        "targets/newly_solved",
        "Targets that were solved for the first time in this round.",
        panel=Panel("Targets solved for the first time", (0,), "Targets", "targets"),
    ),
    Metric(
        "targets/pass_at_n",
        "Share of the round's targets with a right answer among the round's n attempts (figure 3: n = 8). The "
        "difference to `targets/solve_rate` are targets that are no longer solved.",
        panel=Panel("Targets solved in a round", SHARE, "Targets", "share of targets"),
    ),
    Metric(
        "targets/set_aside",
        "Targets that have no solution: they are reported, and played no more.",
        healthy=(0, 0),
        cure="Take them out of the data set.",
        panel=_COUNTS.of("set aside"),
        subject="number of targets without a solution",
    ),
    Metric(
        "targets/mastered",
        "Targets that every answer solved when they were attempted first, at a pass@1 of 1: they were not hard. They "
        "are reported, and played on as solved ones.",
        healthy=(0, 0),
        cure="Choose harder targets.",
        panel=_COUNTS.of("mastered"),
        subject="number of targets that were not hard",
    ),
    Metric(
        "targets/trainable",
        "Synthetic problems that were solved, at a rate of at most 0.5 (figure 6): what the prover learns from beside "
        "the targets. 0: the conjecturer's problems are too easy or too hard.",
        panel=_SYNTHETIC.of("solved, at most half of the time"),
    ),
    Metric(
        "targets/asked",
        "Requested synthetic problems; `targets/trainable` is a part of them. It falls as targets are solved.",
        panel=_SYNTHETIC.of("requested"),
    ),
    Metric(
        "targets/copied",
        "Share of the proposals that were refused for being a target of the set (`copies_target`). High: the "
        "conjecturer repeats what it is shown.",
        panel=Panel("Proposals that copy a target", SHARE, "Targets", "share"),
    ),
    Metric(
        "targets/problem_size",
        "Mean count of numbers of the synthetic problems that were played (figure 2: the length of a conclusion). "
        "Rising far above `targets/set_size`: the conjecturer makes problems longer without a guide to hold it.",
        panel=_SIZE.of("their numbers"),
    ),
    Metric(
        "targets/problem_complex",
        "Share of the synthetic problems that were played whose every solution is nested three deep or passes through "
        "a fraction (figure 2: disjunctive conclusions). Far above `targets/set_complex`: artificially hard problems.",
        panel=_COMPLEX.of("share"),
    ),
    Metric(
        "targets/set_size",
        "The same count of the target set itself: the line of figure 2.",
        panel=_SIZE.of("of the target set"),
    ),
    Metric(
        "targets/set_complex",
        "The same share of the target set itself: the line of figure 2.",
        panel=_COMPLEX.of("of the target set"),
    ),
    Metric(
        "targets/presolve_<k>",
        "Of the 300 targets solved last, with at least ten rounds before: the share of rounds in tenth k of that time "
        "(0 first, 9 last) in which its synthetic problem was trainable (figure 5). Rising with k: problems come into "
        "reach before their targets do.",
        panel=HIDDEN,
    ),
)

_SYMBOLIC = "Symbolic proposer"
_CANDIDATES = Panel("Candidates: valid, and eligible of these", SHARE, _SYMBOLIC)
_SELECTED = Panel("Estimated solve rate of the selected", SHARE, _SYMBOLIC)
_BRIER = Panel("Brier score on fresh labels", (0, 0.25), _SYMBOLIC)
_CALIBRATION = Panel("Calibration error on fresh labels", (0, 0.25), _SYMBOLIC)
_SCORE = Panel("R_gen of the candidates", (), _SYMBOLIC)
_KEPT = Panel("What the proposer keeps", (0,), _SYMBOLIC)

SYMBOLIC = (
    Metric(
        "proposer/raw",
        "Candidates made in a refresh, before any filter.",
        panel=HIDDEN,
        subject="candidates of a refresh",
    ),
    Metric(
        "proposer/valid_rate",
        "Of these, the share that passed every symbolic check (Task Difficulty and Diversity: 65 to 70%). Low: most "
        "candidates are refused; `proposer/rejected_<reason>` says why.",
        healthy=(0.2, inf),
        cure="Widen the domain's ranges, so that fewer candidates are refused.",
        panel=_CANDIDATES.of("valid"),
        subject="share of valid candidates",
    ),
    Metric(
        "proposer/rejected_<reason>",
        "Share of the candidates refused, by the first check that failed: out_of_range, unsolvable (no target in "
        "range asks for such an expression), trivial (the plain sum or product of the numbers), held_out, duplicate "
        "(of this refresh), archived (selected in an earlier one).",
        panel=HIDDEN,
    ),
    Metric(
        "proposer/eligible_rate",
        "Of the valid candidates, the share that the selection might have taken: 1 but for `hard_band` (Task "
        "Difficulty and Diversity: 1, .447 and .682). Near 0: the gate starves the solver.",
        healthy=(0.1, inf),
        cure="Widen the band (`low`, `high` and `least_diversity` of selection_kwargs).",
        panel=_CANDIDATES.of("eligible"),
        subject="share of eligible candidates",
    ),
    Metric(
        "proposer/refused_<verdict>",
        "Of the valid candidates, the share that `hard_band` refused as too_hard, too_easy or low_diversity.",
        panel=HIDDEN,
    ),
    Metric(
        "proposer/selected",
        "Candidates that went into the buffer. 0: all were refused, and anchors fill the slots.",
        healthy=(1, inf),
        cure="Raise `candidates`, or widen the band (`low` and `high` of selection_kwargs).",
        panel=HIDDEN,
        subject="candidates selected in a refresh",
    ),
    Metric(
        "proposer/archive_size",
        "Generated problems that novelty is measured against; it grows.",
        panel=_KEPT.of("archive"),
    ),
    Metric(
        "proposer/buffer_size",
        "Generated problems that the solver's batches are drawn from.",
        panel=_KEPT.of("buffer"),
    ),
    Metric(
        "proposer/diversity",
        "Mean distance of the selected to the archive, in [0, 1]. It falls as the archive fills. Near 0: the selected "
        "problems are repeats in the eyes of the distance, as with the 7 features of Task Difficulty and Diversity "
        "from step 30 on.",
        healthy=(0.01, inf),
        trip=(0.001, inf),
        word="novelty",
        cure="Let the proposer tell more problems apart (features: 13), or raise `diversity` or `candidates`.",
        panel=Panel("Diversity of the selected", (0, 0.1), _SYMBOLIC, "distance to the archive"),
        subject="diversity of the selected problems",
    ),
    Metric(
        "proposer/least_p",
        "Least estimated solve rate among the selected (Task Difficulty and Diversity, figure 4).",
        panel=_SELECTED.of("least"),
    ),
    Metric(
        "proposer/selected_p",
        "Mean estimated solve rate of the selected.",
        healthy=(0.05, 0.9),
        cure="Move the band (`low` and `high` of selection_kwargs), or ask for another difficulty.",
        panel=_SELECTED.of("mean"),
        subject="estimated solve rate of the selected problems",
    ),
    Metric("proposer/score", "Mean R_gen of the valid candidates.", panel=_SCORE.of("valid candidates")),
    Metric("proposer/selected_score", "Mean R_gen of the selected.", panel=_SCORE.of("selected")),
    Metric(
        "proposer/arm_<arm>",
        "Share of the candidates that an arm, or an action of the policy, made.",
        panel=Panel("Who makes the candidates", SHARE, _SYMBOLIC, "<arm>"),
    ),
    Metric(
        "proposer/value_<arm>",
        "A bandit's estimate of an arm: mean reward, in [0, 1].",
        panel=Panel("Estimates of a bandit", SHARE, _SYMBOLIC, "<arm>"),
    ),
    Metric(
        "proposer/q_<action>",
        "Probability that the action policy gives an action, mean over the seeds of a refresh, before it learns from "
        "them: whether a trained proposer has moved.",
        panel=Panel("Probabilities of the actions", SHARE, _SYMBOLIC, "<action>"),
    ),
    Metric(
        "proposer/policy_entropy",
        "Entropy of the action policy in nats, ln 16 = 2.77 at most.",
        healthy=(0.1, inf),
        cure="Raise `entropy` of the proposer, or lower its `learning_rate`.",
        panel=Panel("Entropy of the action policy (nats)", (0,), _SYMBOLIC, "entropy"),
        subject="entropy of the action policy",
    ),
    Metric(
        "proposer/policy_baseline",
        "Moving mean of R_gen that the action policy is compared with.",
        panel=_SCORE.of("policy's baseline"),
    ),
    Metric(
        "proposer/estimate_error",
        "Mean |estimated - measured solve rate| of the problems that were played for the first time. It rises between "
        "two refreshes of the predictor: the estimates are stale.",
        panel=Panel("Estimated against played", (0, 0.2), _SYMBOLIC, "mean error"),
    ),
    Metric(
        "proposer/brier_before",
        "Brier score, on freshly measured solve rates, of the estimates that the candidates were selected by.",
        panel=_BRIER.of("before the refresh"),
    ),
    Metric(
        "proposer/calibration_before",
        "Calibration error of these estimates on the fresh rates: mean |p - rate| over tenths of p. High: the "
        "predictor was stale, or badly calibrated.",
        healthy=(-inf, 0.2),
        cure="Label more, and more often (`relabel`, `relabel_every`, `played_labels`).",
        panel=_CALIBRATION.of("before the refresh"),
        subject="calibration error of the estimates",
    ),
    Metric(
        "proposer/bias_before",
        "Mean estimate less mean fresh rate: above 0 where problems are harder than thought.",
        panel=_CALIBRATION.of("bias before the refresh"),
    ),
    Metric(
        "proposer/brier_after",
        "The same score, on the same fresh rates, after the predictor was refitted: by trees and a calibration "
        "that had not seen the problem.",
        panel=_BRIER.of("after it, unseen labels"),
    ),
    Metric(
        "proposer/calibration_after",
        "Calibration error after the predictor was refitted, likewise.",
        panel=_CALIBRATION.of("after it, unseen labels"),
    ),
    Metric(
        "proposer/predictor_auc",
        "AUC of the predictor on the fresh rates, by trees that had not seen the problem.",
        healthy=(0.6, inf),
        cure="Label more candidates (`relabel`, `relabel_samples`, `played_labels`).",
        panel=Panel("AUC of the predictor", (0.5, 1), _SYMBOLIC, "AUC"),
        subject="AUC of the predictor",
    ),
    Metric("proposer/labels", "Solve rates that the predictor is fitted to.", panel=_KEPT.of("labels")),
    Metric(
        "proposer/rate_at_<tenth>",
        "Mean measured solve rate of the labels whose estimate, by trees that had not seen them, begins with "
        "0.<tenth>: about 0.<tenth>5 where the predictor is calibrated.",
        panel=HIDDEN,
    ),
)

PROPOSER_METRICS = (*TIERS, *TARGETS, *SYMBOLIC, *RUNGS, REPAIRED)
