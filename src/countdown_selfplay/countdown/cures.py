"""Remedies for findings on metrics, by metric name: sentences that name Countdown's settings."""

_PROVER = "Set `prover_prompt` to the one that the model knows, or warm-start it (`countdown-selfplay sft`)."
_EASIER = "(`operands`, `number_high`)"

CURES = {
    "{prover}/format_rate": _PROVER,
    "{prover}/zero_signal_groups": f"Change the difficulty {_EASIER} or the conjecturer's reward, or raise "
    "`num_generations`.",
    "round/starved": "Set `conjecturer_prompt` to the one that the model knows, or warm-start it on playable problems "
    "(`countdown-selfplay sft --role conjecturer`).",
    "round/solve_rate_mean": "Near 1: take a `conjecturer_reward` that pays less for easy problems. Near 0: ask for "
    f"easier ones {_EASIER}, or warm-start the prover.",
    "round/too_hard_share": f"Ask for easier problems {_EASIER}, or warm-start the prover.",
    "{conjecturer}/parseable_rate": "Set `conjecturer_prompt` to the one that the model knows, or warm-start it "
    "(`countdown-selfplay sft --role conjecturer`).",
    "{conjecturer}/contamination_rate": "Ask for problems of which there are more (`operands`, `number_high`, "
    "`target_high`).",
    "proposer/valid_rate": "Widen the ranges (`operands`, `number_high`, `target_high`), so that fewer candidates are "
    "refused.",
    "proposer/selected_p": "Move the band (`low` and `high` of selection_kwargs), or ask for another difficulty "
    f"{_EASIER}.",
    "copied_example_rate": "Take a `conjecturer_prompt` without worked examples, or raise the conjecturers' "
    "temperature.",
}
