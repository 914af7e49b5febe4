"""The tables of the page as HTML: results with intervals, health side by side, settings and their differences."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from typing import Any

from .arms import PLACES, arms_of
from .findings import mean
from .load import Run
from .svg import number

Interval = tuple[float, float, float]

HEALTH = (  # metric, in words
    ("conjecturer/parseable_rate", "parseable"),
    ("conjecturer/in_range_rate", "in range"),
    ("conjecturer/solvable_rate", "solvable"),
    ("conjecturer/unique_rate", "unique"),
    ("conjecturer/admitted_rate", "admitted"),
    ("conjecturer/played_rate", "played"),
    ("conjecturer/contamination_rate", "held-out problems"),
    ("conjecturer/reward", "conjecturer's reward"),
    ("conjecturer/signal", "conjecturer has a signal"),
    ("round/solve_rate_mean", "solve rate"),
    ("round/too_easy_share", "too easy"),
    ("round/too_hard_share", "too hard"),
    ("round/starved", "starved"),
    ("prover/zero_signal_groups", "groups without signal"),
    ("prover/correct_rate", "correct answers"),
    ("prover/truncated_rate", "cut answers"),
    ("prover/several_answers_rate", "several tags"),
)

SETTING = (  # words, config fields: the first that is not None is shown; several of a tuple are joined
    ("rounds", ("max_steps",)),
    ("seed", ("seed",)),
    ("policies", ("policy_sharing",)),
    ("prover's objective", ("prover_objective",)),
    ("conjecturer's objective", ("conjecturer_objective",)),
    ("conjecturer's reward", ("conjecturer_reward",)),
    ("its arguments", ("conjecturer_reward_kwargs",)),
    ("anchor fraction", ("anchor_fraction",)),
    ("fill", ("fill",)),
    ("prover's learning rate", ("prover_learning_rate", "learning_rate")),
    ("conjecturer's learning rate", ("conjecturer_learning_rate", "learning_rate")),
    ("prover's KL", ("prover_beta", "beta")),
    ("conjecturer's KL", ("conjecturer_beta", "beta")),
    ("prover's entropy bonus", ("prover_entropy_coef", "entropy_coef")),
    ("conjecturer's entropy bonus", ("conjecturer_entropy_coef", "entropy_coef")),
    ("answers per problem", ("prover_num_generations", "num_generations")),
    ("micro-batch", ("per_device_train_batch_size",)),
    ("prover's micro-batches", ("prover_micro_batches",)),
    ("conjecturer's micro-batches", ("conjecturer_micro_batches",)),
    ("operands", ("operands",)),
    ("greatest operand", ("number_high",)),
    ("greatest target", ("target_high",)),
    ("prover's prompt", ("prover_prompt",)),
    ("answer rule", ("answer_rule",)),
    ("length penalty", ("length_penalty",)),
)


def results(runs: Sequence[Run]) -> str:
    """pass@k and the conjecturer's rates before and after, with 95% intervals; "" if no run was evaluated."""
    evaluated = [run for run in runs if run.evaluation]
    if not evaluated:
        return ""
    names = dict.fromkeys(
        (role, name)
        for role in ("prover", "conjecturer")
        for run in evaluated
        for when in ("before", "after")
        for name in run.evaluation[when][role]
    )
    head = ["", "before", "after", "difference"] if len(runs) == 1 else ["", *(run.name for run in evaluated)]
    rows = []
    for role, name in names:
        row = [escape(f"{role} {name.replace('_', ' ')}")]
        for run in evaluated:
            before, after = (run.evaluation[when][role].get(name) for when in ("before", "after"))
            change = run.evaluation["difference"].get(name) if role == "prover" else None
            if len(runs) == 1:
                row += [estimate(before), estimate(after), signed(change)]
            else:
                start = f'<span class="from">from {before[0]:.3f}</span>' if before else ""
                row.append(f"{estimate(after)}<br>{start} {signed(change) if change else ''}")
        rows.append(row)
    return table(head, rows) + f'<p class="note">{escape(_result_note(evaluated))}</p>'


def _result_note(runs: Sequence[Run]) -> str:
    sizes = {(run.evaluation["after"]["problems"], run.evaluation["after"]["n"]) for run in runs}
    parts = [f"{problems} held-out problems, {n} answers each" for problems, n in sorted(sizes, key=str) if n]
    cut = [
        side.get("truncated_rate") or 0 for run in runs for side in (run.evaluation["before"], run.evaluation["after"])
    ]
    note = "; ".join(parts) + ". " if parts else ""
    note += "In brackets 95% intervals; those of pass@k resample problems, paired for differences. "
    if max(cut) > 0.01:
        note += f"Up to {max(cut):.1%} of the answers were cut at the token limit and count as wrong: raise it."
    return note


def health(runs: Sequence[Run]) -> str:
    """Mean, maximum and share of rounds above 0 of each curriculum metric, runs side by side (seed 001, table 4)."""
    head = ["", *["mean", "max", "rounds > 0"] * len(runs)]
    rows = []
    for metric, words in HEALTH:
        cells: list[str] = []
        for run in runs:
            values = [value for _, value in run.series(metric)]
            if not values:
                cells += ["–", "–", "–"]
                continue
            average = mean(run, metric)
            positive = sum(value > 0 for value in values) / len(run.rounds)
            cells += [number(round(average or 0.0, 3)), number(round(max(values), 3)), f"{positive:.0%}"]
        if any(cell != "–" for cell in cells):
            rows.append([f'<span title="{escape(metric)}">{escape(words)}</span>', *cells])
    if not rows:
        return ""
    note = (
        "Shares of proposals, problems or answers. Means are over the rounds that have the value (a starved round has "
        "no solve rate); the share of rounds above 0 is of all logged rounds."
    )
    groups = [run.name for run in runs] if len(runs) > 1 else []
    return table(head, rows, groups=groups) + f'<p class="note">{note}</p>'


def setting(run: Run) -> str:
    """The main settings as pairs of word and value."""
    pairs = []
    for words, fields in SETTING:
        value = next((run.config[name] for name in fields if run.config.get(name) is not None), None)
        if value is not None:
            pairs.append((words, plain(value)))
    device = run.environment.get("device")
    if device is not None:
        pairs.append(("device", f"{device} x {run.environment.get('processes', 1)}"))
    cells = "".join(f"<div><dt>{escape(words)}</dt><dd>{escape(value)}</dd></div>" for words, value in pairs)
    return f'<dl class="setting">{cells}</dl>'


def whole_config(run: Run) -> str:
    """Every setting and version, folded away."""
    rows = [[escape(name), f"<code>{escape(plain(value))}</code>"] for name, value in sorted(run.config.items())]
    rows += [[escape(name), f"<code>{escape(plain(value))}</code>"] for name, value in sorted(run.environment.items())]
    return (
        f"<details><summary>All settings and versions</summary>{table(['field', 'value'], rows, labels=2)}</details>"
    )


def differences(runs: Sequence[Run]) -> str:
    """Settings in which the runs differ, one column per arm; what differs within an arm (seeds) in one cell."""
    arms = arms_of(runs)
    rows = []
    for name in sorted({name for run in runs for name in run.config} - PLACES):
        cells = [[plain(run.config[name]) if name in run.config else "–" for run in arm.runs] for arm in arms]
        if len({value for cell in cells for value in cell}) > 1:
            words = [", ".join(dict.fromkeys(cell)) for cell in cells]
            rows.append([escape(name), *(f"<code>{escape(value)}</code>" for value in words)])
    if not rows:
        return "<p>All runs have the same settings.</p>"
    return table(["field", *(arm.name for arm in arms)], rows, labels=len(arms) + 1)


def table(head: Sequence[str], rows: Sequence[Sequence[str]], labels: int = 1, groups: Sequence[str] = ()) -> str:
    """`head` and `groups` are escaped here, cells are HTML. The first `labels` columns are text, the others numbers.
    `groups`: titles over equally many columns each, with a rule between them."""
    size = (len(head) - labels) // len(groups) if groups else 0

    def attributes(column: int) -> str:
        names = [] if column < labels else ["num"]
        names += ["rule"] if size and column >= labels and (column - labels) % size == 0 else []
        return f' class="{" ".join(names)}"' if names else ""

    top = ""
    if groups:
        titles = "".join(f'<th class="rule" colspan="{size}">{escape(title)}</th>' for title in groups)
        top = f'<th colspan="{labels}"></th>{titles}</tr><tr>'
    top += "".join(f"<th{attributes(i)}>{escape(cell)}</th>" for i, cell in enumerate(head))
    body = "".join(
        "<tr>" + "".join(f"<td{attributes(i)}>{cell}</td>" for i, cell in enumerate(row)) + "</tr>" for row in rows
    )
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def estimate(value: Interval | None) -> str:
    if value is None:
        return "–"
    return f'<b>{value[0]:.3f}</b> <span class="ci">[{value[1]:.3f}, {value[2]:.3f}]</span>'


def signed(value: Interval | None) -> str:
    """A difference, coloured if its interval excludes 0."""
    if value is None:
        return "–"
    mark = "up" if value[1] > 0 else "down" if value[2] < 0 else "same"
    return f'<b class="{mark}">{value[0]:+.3f}</b> <span class="ci">[{value[1]:+.3f}, {value[2]:+.3f}]</span>'


def plain(value: Any) -> str:
    """A config value in one line."""
    if value is None:
        return "none"
    return value if isinstance(value, str) else json.dumps(value, default=str)
