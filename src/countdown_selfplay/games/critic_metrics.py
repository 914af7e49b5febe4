"""What the Critic-Discernment Game logs. A value that does not exist is left out, never 0."""

from __future__ import annotations

from math import inf

from ..contract.metric import Metric
from .metrics import ANSWERS

WARM_START = "Start from weights that know the game: for the embedded model run `countdown-selfplay cdg --prepare`."

REVISIONS = (
    Metric(
        "{prover}/success_rate",
        "Share of revisions that end with a correct answer: a wrong one was corrected, or a correct one kept. "
        "It rises, unless the misleading critic gains faster.",
        word="discerned",
    ),
    Metric("{prover}/corrected_rate", "Of revisions of wrong answers, the share that corrects them."),
    Metric(
        "{prover}/resisted_rate",
        "Of revisions of right answers, the share that says once that the critique is not critical. Near 1 while "
        "`prover/corrected_rate` falls: the prover rejects every critique.",
    ),
    Metric("{prover}/kept_rate", "Of revisions of correct answers, the share that is correct again."),
    Metric(
        "{prover}/misled_rate",
        "Of revisions of correct answers, the share that is wrong. High: the prover follows every critique.",
        healthy=(-inf, 0.5),
        cure="Train the misleading critic less (its learning rate, its samples), or the prover more.",
    ),
)
"""The prover's second turn."""

CRITIQUES = (
    Metric("{helpful}/win_rate", "Share of revisions after its critiques that mend the answer; 0: it does not help."),
    Metric(
        "{helpful}/read_rate",
        "Share of its critiques that the prover could be shown. Low: the format is lost.",
        healthy=(0.5, inf),
        cure=WARM_START,
        legible=True,
    ),
    Metric(
        "{misleading}/win_rate",
        "Share of revisions after its critiques that give up a right answer. It falls as the prover learns, and rises "
        "as the critic does.",
        word="misled",
    ),
    Metric("{misleading}/read_rate", "As `helpful/read_rate`.", healthy=(0.5, inf), cure=WARM_START, legible=True),
)
"""The critics' turn."""

METRICS = (*ANSWERS, *REVISIONS, *CRITIQUES)
