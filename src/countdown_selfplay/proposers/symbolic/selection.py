"""Selection of generated problems: their distance to earlier ones, rules by which they enter training, the solver's
buffer, and the reservoir of problems to label (Task Difficulty and Diversity, sections 3.3 and 3.4)."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from annotated_types import Gt

from ...errors import ConfigError
from ...registry import Amount, Count

Rule = Literal["top_k", "hard_band", "soft_penalty", "sampled"]


class Selected(NamedTuple):
    """Result of `select`. chosen: row indices, best first. verdicts: "admitted" or the reason for refusal, by row."""

    chosen: np.ndarray
    verdicts: list[str]


@dataclass(frozen=True)
class Selection:
    """Selection by R_gen = R_diff + diversity x R_div of a candidate with estimated solve rate p. R_diff is minus the
    distance of p to [low, high]; R_div, in [0, 1], the distance to the archive. Ties: the earlier candidate. The
    source, Task Difficulty and Diversity (section 3.4), gives neither the weight of R_div nor the least diversity.

    rule: top_k: the k candidates of highest R_gen, none refused (UCB in the source); hard_band: candidates outside the
    band and those with R_div < least_diversity are refused first (gate in the source); soft_penalty: nothing is
    refused; distance to the band costs `penalty` times as much as in R_gen, and R_div below least_diversity `penalty`
    times the difference (proposed in section 6); sampled: k candidates drawn without replacement, with weights
    exp(R_gen / temperature)."""

    rule: Rule = "top_k"
    low: Amount = 0.2
    high: Amount = 0.6
    diversity: Amount = 0.5
    least_diversity: Amount = 0.01
    penalty: Amount = 3.0
    temperature: Annotated[float, Gt(0)] = 0.1

    def __post_init__(self) -> None:
        if not self.low <= self.high <= 1:
            raise ConfigError(f"`low` ({self.low}) and `high` ({self.high}) must be an ascending band within [0, 1].")

    @property
    def bounds(self) -> tuple[float, float]:
        """Lowest and highest possible R_gen."""
        return -max(self.low, 1 - self.high), self.diversity

    def outside(self, p_N: np.ndarray) -> np.ndarray:
        """Return the distances of solve rates to the band, (N,)."""
        return np.maximum(np.maximum(self.low - p_N, p_N - self.high), 0.0)

    def reward(self, p_N: np.ndarray, diversity_N: np.ndarray) -> np.ndarray:
        """Return the scores R_gen, (N,)."""
        return self.diversity * diversity_N - self.outside(p_N)

    def select(self, p_N: np.ndarray, diversity_N: np.ndarray, count: int, seed: int) -> Selected:
        """Select at most `count` candidates by the rule. seed: for the draws of the rule `sampled`."""
        score_N = self.reward(p_N, diversity_N)
        verdicts = np.full(len(p_N), "admitted", dtype=object)
        if self.rule == "hard_band":
            verdicts[diversity_N < self.least_diversity] = "low_diversity"
            verdicts[p_N < self.low] = "too_hard"
            verdicts[p_N > self.high] = "too_easy"
        elif self.rule == "soft_penalty":
            missing_N = np.maximum(self.least_diversity - diversity_N, 0.0)
            score_N = score_N - (self.penalty - 1) * self.outside(p_N) - self.penalty * missing_N
        elif self.rule == "sampled":  # the k largest scores with Gumbel noise are such a draw
            noise_N = np.random.default_rng(seed).gumbel(size=len(score_N))
            score_N = score_N / self.temperature + noise_N
        open_N = np.flatnonzero(verdicts == "admitted")
        best = open_N[np.argsort(-score_N[open_N], kind="stable")][:count]
        return Selected(best, verdicts.tolist())


@dataclass
class Entry:
    """Problem in the buffer. p: solve rate, estimated or last measured. measured: whether it was played. added: round
    in which it was added. arm: name of the arm that made it."""

    key: str
    p: float
    added: int
    arm: str
    measured: bool = False


class ProblemReplay:
    """Buffer of generated problems on which the solver trains (B_gen of Task Difficulty and Diversity). A draw is
    uniform, as in the source, or weighted by 2^(-age / half_life) x exp(-outside / softness), with the age in rounds
    and `outside` the distance of p to the band.

    capacity: above it entries of the smallest weight are removed; of equal ones, the oldest. half_life: 0: no weight
    by age. softness: 0: no weight by difficulty."""

    def __init__(self, capacity: Count = 10_000, half_life: Amount = 0.0, softness: Amount = 0.0) -> None:
        self.capacity, self.half_life, self.softness = capacity, half_life, softness
        self.entries: dict[str, Entry] = {}

    def __len__(self) -> int:
        return len(self.entries)

    def add(self, keys: Sequence[str], p_N: Sequence[float], arms: Sequence[str], now: int, band: Selection) -> None:
        """Add the problems selected in round `now`. `band`: selection whose band the weights use."""
        for key, p, arm in zip(keys, p_N, arms, strict=True):
            self.entries[key] = Entry(key, float(p), now, arm)
        if len(self.entries) > self.capacity:
            listed = list(self.entries.values())
            added_E = np.array([entry.added for entry in listed])
            order = np.lexsort((-added_E, -self._log_weights(listed, now, band)))[: self.capacity]
            self.entries = {listed[i].key: listed[i] for i in sorted(order.tolist())}

    def draw(self, count: int, now: int, band: Selection, seed: int) -> list[Entry]:
        """Draw at most `count` different problems, without replacement, by their weights in round `now`."""
        listed = list(self.entries.values())
        if not listed:
            return []
        noise = np.random.default_rng(seed).gumbel(size=len(listed))
        order = np.argsort(-(self._log_weights(listed, now, band) + noise), kind="stable")[:count]
        return [listed[i] for i in order]

    def _log_weights(self, listed: Sequence[Entry], now: int, band: Selection) -> np.ndarray:
        age_E = np.array([now - entry.added for entry in listed], dtype=float)
        outside_E = band.outside(np.array([entry.p for entry in listed]))
        by_age_E = age_E * np.log(2) / self.half_life if self.half_life else 0.0
        return -(by_age_E + (outside_E / self.softness if self.softness else 0.0)) + 0.0 * age_E

    def state_dict(self) -> dict[str, Any]:
        return {"entries": [vars(entry) for entry in self.entries.values()]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.entries = {values["key"]: Entry(**values) for values in state["entries"]}


class Reservoir:
    """Reservoir of the last `capacity` valid candidates, selected or not. Drawn candidates are removed."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.keys: list[str] = []
        self.p_R = np.zeros(0)

    def add(self, keys: Sequence[str], p_N: np.ndarray) -> None:
        """Add a round's candidates, which replace earlier entries of the same problems."""
        again = set(keys)
        kept = [i for i, key in enumerate(self.keys) if key not in again]
        self.keys = [*(self.keys[i] for i in kept), *keys][-self.capacity :]
        self.p_R = np.concatenate([self.p_R[kept], p_N])[-self.capacity :]

    def draw(self, count: int, low: float, high: float, seed: int) -> list[str]:
        """Draw at most `count` problems, equally many with p below `low`, from `low` to `high` and above `high`;
        strata with too few are completed by the others."""
        generator = np.random.default_rng(seed)
        strata = [self.p_R < low, (low <= self.p_R) & (self.p_R <= high), self.p_R > high]
        lines = [generator.permutation(np.flatnonzero(mask)).tolist() for mask in strata]
        drawn: list[int] = []
        while len(drawn) < count and any(lines):  # one of each in turn
            drawn += [line.pop() for line in lines if line][: count - len(drawn)]
        taken = set(drawn)
        keys = [self.keys[i] for i in drawn]
        kept = [i for i in range(len(self.keys)) if i not in taken]
        self.keys, self.p_R = [self.keys[i] for i in kept], self.p_R[kept]
        return keys

    def state_dict(self) -> dict[str, Any]:
        return {"keys": list(self.keys), "p": self.p_R.copy()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.keys, self.p_R = list(state["keys"]), np.array(state["p"], dtype=float)


VERSION = 1
"""Version of the feature vectors; a checkpoint with another version is refused."""


class NoveltyArchive:
    """Archive of problems by key, with their points in feature space; unbounded. The distance is the root mean square
    difference of two points' columns, in [0, 1]; Task Difficulty and Diversity defines none. feature_set: 7 or 13."""

    def __init__(self, feature_set: int) -> None:
        self.feature_set = feature_set
        self.keys: dict[str, None] = {}  # in order, and quick to look up
        self.listed: list[str] = []
        self.domain: dict[str, Any] | None = None
        self.index: Nearest = Nearest(0)  # its columns are those of the first points

    def __len__(self) -> int:
        return len(self.listed)

    def __contains__(self, key: str) -> bool:
        return key in self.keys

    def open(self, domain: dict[str, Any]) -> None:
        """Set the problems' domain (its `to_dict`). Raises ConfigError if it has changed, prompts aside."""
        domain = json.loads(json.dumps(domain))  # as a checkpoint holds it: no tuples
        if self.domain is None or not self.listed:
            self.domain = domain
        for name in {**self.domain, **domain}:
            if name.endswith("_prompt") or self.domain.get(name) == domain.get(name):
                continue
            raise ConfigError(
                f"The archive of generated problems was made with {name} {self.domain.get(name)}, and this run has "
                f"{domain.get(name)}: their distances differ. Start a new run, or set {name} back."
            )

    def distance(self, points_NF: np.ndarray) -> np.ndarray:
        """Return R_div, (N,) in [0, 1]; 1 for an empty archive."""
        return self.index.scaled(points_NF) if len(self) else np.ones(len(points_NF))

    def add(self, keys: Sequence[str], points_NF: np.ndarray) -> None:
        if not len(self):
            self.index = Nearest(points_NF.shape[1])
        self.keys.update(dict.fromkeys(keys))
        self.listed += keys
        self.index.add(points_NF)

    def state_dict(self) -> dict[str, Any]:
        facts = {"version": VERSION, "feature_set": self.feature_set, "domain": self.domain}
        return {**facts, "keys": list(self.listed), "points": self.index.points_AF.copy()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, own in (("version", VERSION), ("feature_set", self.feature_set)):
            if state[name] != own:
                raise ConfigError(
                    f"The checkpoint's archive of generated problems has {name} {state[name]}, and this run {own}: "
                    "their distances differ. Start a new run, or resume with the version and `features` of the old."
                )
        self.keys, self.listed, self.domain = {}, [], state["domain"]
        self.index = Nearest(0)
        if state["keys"]:
            self.add(list(state["keys"]), np.asarray(state["points"]))


class Nearest:
    """Index of points for exact distances to the nearest one. The tree holds repeated points once: with the 7 features
    of solution trees a million problems are a few hundred points, and a tree cannot split equal points."""

    def __init__(self, dimensions: int) -> None:
        self.points_AF = np.zeros((0, dimensions))
        self._tree: Any = None

    def __len__(self) -> int:
        return len(self.points_AF)

    def add(self, points_NF: np.ndarray) -> None:
        """Add points, (N, dimensions)."""
        self.points_AF, self._tree = np.concatenate([self.points_AF, points_NF]), None

    def distance(self, points_NF: np.ndarray) -> np.ndarray:
        """Return the Euclidean distances to the nearest point, (N,); infinite if there is none."""
        from scipy.spatial import cKDTree  # plain commands, which read this module's metrics, load no SciPy

        if not len(self) or not len(points_NF):
            return np.full(len(points_NF), np.inf)
        if self._tree is None:  # not balanced: with 13 features of real problems three times as fast
            self._tree = cKDTree(np.unique(self.points_AF, axis=0), balanced_tree=False)
        return np.asarray(self._tree.query(points_NF)[0])

    def scaled(self, points_NF: np.ndarray) -> np.ndarray:
        """Return the root mean square differences to the nearest point, (N,)."""
        return self.distance(points_NF) / np.sqrt(points_NF.shape[1])
