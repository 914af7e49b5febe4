"""How well the features of novelty part arithmetic structures: `python benchmarks/novelty_features.py`.

On 600 held-out problems, for the 7 and 13 features and the learned ones (trained here, on problems of the training
side): how often two problems whose solutions have the same structures are nearer than two that share none; how often
the nearest problem has the same structures; and the mean distance to the nearest, which is what novelty has left to
tell problems of one structure apart. Process time of the training, one thread. Needs the extra `symbolic`.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch

from countdown_selfplay.countdown import CountdownDomain
from countdown_selfplay.proposers.symbolic.embedding import Embedding, seen


class Separation(NamedTuple):
    parted: float
    nearest: float
    gap: float


def separation(points_PF: np.ndarray, structures_PS: np.ndarray) -> Separation:
    """Of P problems in a space of novelty, whose solutions have these shares of structures."""
    found_PP = np.sqrt(np.square(points_PF[:, None] - points_PF[None]).mean(axis=2))
    np.fill_diagonal(found_PP, np.inf)
    same_PP = np.abs(structures_PS[:, None] - structures_PS[None]).sum(axis=2) < 1e-9
    of_same = found_PP[same_PP & np.isfinite(found_PP)]
    of_other = np.sort(found_PP[structures_PS @ structures_PS.T == 0])
    below, up_to = (np.searchsorted(of_other, of_same, side=side).mean() for side in ("left", "right"))
    parted = 1 - (below + up_to) / 2 / len(of_other)  # equal distances count half
    nearest = same_PP[np.arange(len(points_PF)), found_PP.argmin(axis=1)].mean()
    return Separation(float(parted), float(nearest), float(found_PP.min(axis=1).mean()))


def spaces(domain: Any, problems: list[Any], **settings: Any) -> dict[str, np.ndarray]:
    """Points of problems by each kind of features."""
    features_PF = domain.mutations.features(problems)
    learned = Embedding(**settings)
    learned.fit(domain)
    known = {str(count): domain.mutations.novelty(problems, count, features_PF) for count in (7, 13)}
    return {**known, "learned": learned.encode(seen(domain, problems, features_PF))}


def main() -> None:
    torch.set_num_threads(1)
    tiny = CountdownDomain.tiny()
    twenty = replace(tiny, spec=replace(tiny.spec, number_high=20))
    print("| problems | features | parted | nearest | gap |\n|---|---|---|---|---|")
    for name, domain in (("3 numbers to 20", twenty), ("3 and 4 numbers to 99", CountdownDomain.countdown_3to4())):
        problems, start = domain.held_out(600), time.process_time()
        for features, points_PF in spaces(domain, problems).items():
            found = separation(points_PF, domain.mutations.structures(problems))
            print(f"| {name} | {features} | {found.parted:.4f} | {found.nearest:.3f} | {found.gap:.4f} |")
        print(f"Training and all of this: {time.process_time() - start:.1f} s.")


if __name__ == "__main__":
    main()
