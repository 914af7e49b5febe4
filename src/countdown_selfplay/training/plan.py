"""Samples, micro-batch tensors, and the plan of a round's optimizer steps."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, zip_longest
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from ..contract.episodes import Episodes
from ..contract.round import Rollout, Turn

REFERENCE = "ref_per_token_logps"
LOGPS = ("old_per_token_logps", "sampling_per_token_logps", REFERENCE)
"""TRL's columns with a log-prob for each completion token."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Prompt and completion of an answer, or of one move of an episode."""

    prompt: np.ndarray
    """Token ids without padding."""
    completion: np.ndarray
    """Token ids with the end token; empty if the sample is masked out."""
    advantage: float = 0.0
    group: int = 0
    """Number that all samples with one baseline share."""
    answer: int = 0
    """Number that all moves of an episode share."""
    trained: bool = True
    """Whether the objective selects the sample."""
    imitated: bool = False
    """Whether the supervised term of the loss includes the sample."""
    logps: Mapping[str, np.ndarray] = field(default_factory=dict)
    """TRL's column name (one of LOGPS) -> one log-prob per completion token."""
    round: int = 0
    """Round in which the completion was sampled."""

    @property
    def tokens(self) -> int:
        """Number of completion tokens."""
        return len(self.completion)

    @property
    def credited(self) -> bool:
        """Whether the sample has credit: a nonzero advantage or a place in the supervised term."""
        return self.imitated or (self.trained and self.advantage != 0)


def samples_of(turns: Iterable[Turn], round_: int, first: int = 0) -> list[Sample]:
    """Return the samples of a player's turns on this process. `round_`: index of the round. `first`: lowest group and
    answer number, which must make the numbers unique over processes."""
    samples: list[Sample] = []
    for turn in turns:
        count = turn.advantages_B.size(0)
        selected = [True] * count if turn.selected_B is None else turn.selected_B.tolist()
        imitated = [False] * count if turn.imitated_B is None else turn.imitated_B.tolist()
        credit, parts = turn.advantages_B.tolist(), [(turn.rollout, list(range(count)))]
        if isinstance(turn.rollout, Episodes):  # moves of an episode are adjacent and in order
            parts = list(zip(turn.rollout.moves, turn.rollout.episode_of, strict=True))
        rows: list[list[Sample]] = [[] for _ in range(count)]
        for rollout, answers in parts:
            for i, (prompt, completion, logps) in zip(answers, _tokens(rollout), strict=True):
                marks = (first + i // turn.group, first + i, selected[i], imitated[i])
                rows[i].append(Sample(prompt, completion, credit[i], *marks, logps, round_))
        samples += [sample for row_samples in rows for sample in row_samples]
        first += count
    return samples


def _tokens(rollout: Rollout) -> list[tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]]:
    """Return prompt, completion and log-probs of each row, without padding (prompts: left; others: right)."""
    if not rollout.texts:
        return []
    tensors = rollout.tensors
    prompts, completions = tensors["prompt_ids"].cpu().numpy(), tensors["completion_ids"].cpu().numpy()
    columns = {name: at_least_float32(tensors[name]).cpu().numpy() for name in LOGPS if name in tensors}
    starts = (prompts.shape[1] - tensors["prompt_mask"].sum(1)).tolist()
    ends = tensors["completion_mask"].sum(1).tolist()
    return [
        (prompts[i, start:], completions[i, :end], {name: column[i, :end] for name, column in columns.items()})
        for i, (start, end) in enumerate(zip(starts, ends, strict=True))
    ]


def at_least_float32(values: torch.Tensor) -> torch.Tensor:
    """Convert 16-bit floats to float32: 16 bits are too few for sums and token counts, and NumPy lacks bfloat16."""
    return values.float() if values.dtype in (torch.float16, torch.bfloat16) else values


def by_answer(samples: Iterable[Sample]) -> list[list[Sample]]:
    """Group samples by answer (an episode is one answer), in order of first occurrence."""
    answers: dict[int, list[Sample]] = {}
    for sample in samples:
        answers.setdefault(sample.answer, []).append(sample)
    return list(answers.values())


def collate(
    samples: Sequence[Sample],
    device: torch.device | str = "cpu",
    group_tokens: Mapping[int, int] = MappingProxyType({}),
) -> dict[str, torch.Tensor]:
    """Build a micro-batch of B rows with TRL's names; prompts are padded on the left, completions on the right.
    `completion_mask` is 1 on trained tokens, `sft_mask` (if a row is imitated) on those of the supervised term;
    `sequence`, (B), is as in LossInputs. `group_tokens`: group -> number of its trained tokens."""
    width, count = max(len(s.prompt) for s in samples), len(samples)
    left, right = (count, width), (count, max(1, *(s.tokens for s in samples)))
    arrays = {name: np.zeros(left, np.int64) for name in ("prompt_ids", "prompt_mask")}
    arrays |= {name: np.zeros(right, np.int64) for name in ("completion_ids", "completion_mask")}
    if any(sample.imitated for sample in samples):
        arrays["sft_mask"] = np.zeros(right, np.int64)
    for name in LOGPS:
        if kinds := [s.logps[name].dtype for s in samples if name in s.logps]:
            arrays[name] = np.zeros(right, kinds[0])
    for i, sample in enumerate(samples):
        start, end = width - len(sample.prompt), sample.tokens
        arrays["prompt_ids"][i, start:], arrays["prompt_mask"][i, start:] = sample.prompt, 1
        arrays["completion_ids"][i, :end] = sample.completion
        arrays["completion_mask"][i, :end] = sample.trained
        if sample.imitated:
            arrays["sft_mask"][i, :end] = 1
        for name in LOGPS:
            if name in sample.logps:
                arrays[name][i, :end] = sample.logps[name]
            elif name in arrays and name != REFERENCE:  # no policy sampled it: NaN means the current log-prob
                arrays[name][i] = np.nan
    batch = {name: torch.from_numpy(array) for name, array in arrays.items()}
    batch["advantages"] = torch.tensor([s.advantage for s in samples], dtype=torch.float32)
    batch["group_tokens"] = torch.tensor([group_tokens.get(s.group, 0) for s in samples])
    if len({s.answer for s in samples}) < len(samples):
        batch["sequence"] = torch.tensor([s.answer for s in samples])
    return {name: tensor.to(device) for name, tensor in batch.items()}


BLANK = Sample(np.zeros(1, np.int64), np.zeros(1, np.int64), trained=False)
"""Row of weight 0, for a process that must run a pass without a sample."""


@dataclass(frozen=True)
class Counts:
    """Counts of a role's samples in an optimizer step, divided by the number of processes; they normalise losses."""

    sequences: float = 1.0
    """Number of trained answers; an episode is one."""
    tokens: float = 1.0
    groups: float = 1.0
    sft_tokens: float = 1.0

    @classmethod
    def of(cls, samples: Sequence[Sample], world: int = 1) -> Counts:
        trained = [sample for sample in samples if sample.trained]
        answers, groups = len({sample.answer for sample in trained}), len({sample.group for sample in trained})
        imitated = sum(sample.tokens for sample in samples if sample.imitated)
        return cls(answers / world, sum(sample.tokens for sample in trained) / world, groups / world, imitated / world)


@dataclass(frozen=True)
class Pass:
    """Micro-batch of one player, or of several that share a forward pass (mixed adapters)."""

    parts: tuple[tuple[str, Sequence[Sample]], ...]
    graph: bool = True
    """Whether the samples have a gradient; if not, they are only measured."""

    @property
    def role(self) -> str:
        return self.parts[0][0]


@dataclass(frozen=True)
class Step:
    """Plan of an optimizer step on this process."""

    passes: Sequence[Pass]
    counts: Mapping[str, Counts]
    """Role -> counts that normalise the role's losses."""
    measured: Mapping[str, Counts]
    """Role -> counts, over the samples that a pass reads, that normalise the role's metrics."""
    group_tokens: Mapping[str, Mapping[int, int]]
    """Role -> group -> number of trained tokens."""
    signalless: frozenset[str] = frozenset()
    """Roles none of whose samples has credit."""
    through: frozenset[str] = frozenset()
    """Roles that have taken all their steps of the round."""
    still: frozenset[str] = frozenset()
    """Roles none of whose samples has a gradient."""


def equal_steps(samples: Sequence[Sample], steps: int, seed: int) -> list[list[Sample]]:
    """Split answers into `steps` parts whose sizes differ by at most one, in an order drawn from `seed`. Groups stay
    whole if they have equal sizes that divide the size of a part."""
    if steps == 1:
        return [list(samples)]
    answers = by_answer(samples)
    units = answers if len(answers) % steps else _units(answers, len(answers) // steps)
    return _drawn(units, [len(units) * i // steps for i in range(steps + 1)], seed)


def filled_steps(samples: Sequence[Sample], size: int, most: int, seed: int) -> list[list[Sample]]:
    """Split answers with credit into steps of `size`, in an order drawn from `seed`; the last may be smaller. Answers
    without credit are left out, so that the number of steps follows the data (SGS, appendix C.1). With more than
    `most` x `size` answers, `size` grows so that `most` steps suffice."""
    answers = by_answer(sample for sample in samples if sample.credited)
    size = max(size, -(-len(answers) // most))
    units = _units(answers, size)
    each = max(size * len(units) // max(len(answers), 1), 1)
    return _drawn(units, [*range(0, len(units), each), len(units)], seed)


def _drawn(units: list[list[Sample]], ends: Sequence[int], seed: int) -> list[list[Sample]]:
    """Shuffle the units by `seed`, and split them at `ends` (0 and the number of units included)."""
    order = list(range(len(units)))
    random.Random(seed).shuffle(order)
    return [[sample for i in sorted(order[a:b]) for sample in units[i]] for a, b in pairwise(ends)]


def _units(answers: list[list[Sample]], size: int) -> list[list[Sample]]:
    """Return the units that a step contains whole: groups, if all have one size that divides `size`, else answers."""
    groups: dict[int, list[list[Sample]]] = {}
    for answer in answers:
        groups.setdefault(answer[0].group, []).append(answer)
    sizes = {len(group) for group in groups.values()}
    if len(sizes) == 1 and size % min(sizes) == 0:
        return [[sample for answer in group for sample in answer] for group in groups.values()]
    return answers


@dataclass(frozen=True)
class Room:
    """Capacity of a pass, and the distribution of passes over processes."""

    rows: int
    tokens: int = 0
    """Largest number of tokens of prompts and completions with padding; 0: unbounded."""
    by_prompt: bool = False
    """Whether rows of a group stay together, so that passes share their prompts."""
    world: int = 1
    in_step: bool = False
    """Whether all processes run the same number of passes of each role, at least one (DeepSpeed, FSDP2)."""

    def cut(self, samples: Sequence[Sample]) -> list[list[Sample]]:
        """Split samples into micro-batches of whole answers, the longest first: rows of a pass have similar lengths,
        and a round that exceeds memory fails at its first pass."""
        answers, rows = by_answer(samples), self.rows
        episodes = len(answers) < len(samples)

        def length(answer: Sequence[Sample]) -> int:
            return max(sample.tokens + (len(sample.prompt) if episodes else 0) for sample in answer)

        def part(answer: Sequence[Sample]) -> tuple[int, bool]:
            return answer[0].group, answer[0].advantage != 0

        if self.by_prompt:  # a group's other samples follow its longest one; those with credit are separate
            longest = Counter[tuple[int, bool]]()
            for answer in answers:
                longest[part(answer)] = max(longest[part(answer)], length(answer))
            answers.sort(key=lambda answer: (longest[part(answer)], part(answer)), reverse=True)
        else:
            answers.sort(key=length, reverse=True)
        if self.world > 1 and samples:  # the same number of micro-batches for each process, or one more
            passes = -(-len(samples) // (rows * self.world)) * self.world
            rows = -(-len(samples) // passes)
        parts: list[list[Sample]] = []
        for answer in answers:
            if not parts or not self._fits([*parts[-1], *answer], rows):
                parts.append([])
            parts[-1] += answer
        return parts

    def _fits(self, samples: Sequence[Sample], rows: int) -> bool:
        if len(samples) > rows or not self.tokens:
            return len(samples) <= rows
        width = max(len(sample.prompt) for sample in samples) + max(sample.tokens for sample in samples)
        return len(samples) * width <= self.tokens

    def deal(self, passes: Mapping[str, Sequence[Pass]]) -> list[list[Pass]]:
        """Distribute the passes of each role over the processes; return the list of each process."""
        by_process: list[list[Pass]] = [[] for _ in range(self.world)]
        for role, role_passes in passes.items():
            most = max(-(-len(role_passes) // self.world), 1)
            for rank, dealt in enumerate(by_process):
                mine = list(role_passes[rank :: self.world])
                dealt += mine + [Pass(((role, [BLANK]),))] * (most - len(mine) if self.in_step else 0)
        first = next((p.role for role_passes in passes.values() for p in role_passes if p.graph), None)
        for dealt in by_process:  # a backward pass exchanges gradients
            if first is not None and not any(p.graph for p in dealt):
                dealt.append(Pass(((first, [BLANK]),)))
        return by_process


def group_tokens(samples: Sequence[Sample]) -> Counter[int]:
    """Return the number of trained tokens of each group in a step."""
    lengths = Counter[int]()
    for sample in samples:
        lengths[sample.group] += sample.tokens if sample.trained else 0
    return lengths


def side_by_side(passes: Sequence[Pass]) -> list[Pass]:
    """Combine the i-th micro-batches of all players into one pass, separately with and without a gradient."""
    result = []
    for graph in (True, False):
        by_role: dict[str, list[Pass]] = {}
        for one in passes:
            if one.graph == graph:
                by_role.setdefault(one.role, []).append(one)
        for beside in zip_longest(*by_role.values()):
            result.append(Pass(tuple(part for one in beside if one is not None for part in one.parts), graph))
    return result


@dataclass(frozen=True)
class Planner:
    """Planner of the optimizer steps of process `rank`."""

    room: Room
    rank: int
    sharing: Mapping[str, frozenset[str]]
    """Trained role -> trained roles that use its weights, itself included."""
    proportional: Callable[[str], bool]
    """Role -> whether a sample's gradient is proportional to its advantage."""
    episodes: frozenset[str]
    """Roles that answer in moves; if `proportional`, passes leave out their answers without credit."""
    drop_signalless: bool
    mixes: bool = False
    """Whether players share passes (mixed adapters)."""

    def steps(
        self, cut: Mapping[str, list[list[Sample]]], beside: Mapping[str, tuple[Any, tuple[object, ...]]]
    ) -> list[Step]:
        """Plan the optimizer steps of a round, at least one. `cut`: role -> samples of all processes in each of its
        steps; a later step leaves the role out. `beside`: role -> its learner's `demonstrations` and a seed's key."""
        return [
            self.step(
                {role: parts[i] if i < len(parts) else [] for role, parts in cut.items()},
                {role: make((*key, i)) for role, (make, key) in beside.items() if make and i < len(cut[role])},
                frozenset(role for role, parts in cut.items() if i >= max(len(parts), 1)),
            )
            for i in range(max([1, *map(len, cut.values())]))
        ]

    def step(
        self,
        samples: Mapping[str, Sequence[Sample]],
        beside: Mapping[str, Sequence[Sample]] = MappingProxyType({}),
        through: frozenset[str] = frozenset(),
    ) -> Step:
        """Plan one optimizer step. `samples`: role -> samples of all processes. `beside`: role -> demonstrations."""
        signalless = frozenset(role for role, drawn in samples.items() if not any(sample.credited for sample in drawn))
        passes, counts, measured, of_groups, still = {}, {}, {}, {}, set()
        for role, drawn in samples.items():
            whole = [*drawn, *beside.get(role, ())]
            held = self.drop_signalless and self.sharing[role] <= signalless
            live, idle = self._read(role, [s for s in whole if s.tokens and (s.trained or s.imitated)], held)
            counts[role], of_groups[role] = Counts.of(whole, self.room.world), group_tokens(whole)
            measured[role] = Counts.of([*live, *idle], self.room.world)
            if not live:
                still.add(role)
            if self.room.in_step:  # a pass without a graph would run on this process alone
                live, idle = [*live, *idle], []
            passes[role] = [Pass(((role, rows),)) for rows in self.room.cut(live)]
            passes[role] += [Pass(((role, rows),), graph=False) for rows in self.room.cut(idle)]
        mine = self.room.deal(passes)[self.rank]
        mine = side_by_side(mine) if self.mixes else mine
        return Step(mine, counts, measured, of_groups, signalless, through, frozenset(still))

    def _read(self, role: str, samples: list[Sample], held: bool) -> tuple[list[Sample], list[Sample]]:
        """Return the samples with a gradient and those only measured. `held`: the weights must not move."""
        proportional = self.proportional(role)
        if proportional and role in self.episodes:
            samples = [sample for sample in samples if sample.credited]
        if not (held or proportional):
            return samples, []
        live = [sample for sample in samples if sample.credited and not held]
        if not (live or self.drop_signalless):  # a gradient of 0 still lets momentum and weight decay act
            return samples[:1], samples[1:]
        return live, [sample for sample in samples if held or not sample.credited]


def planner_of(trl: Any) -> Planner:
    """Return the planner of this process of a trainer."""
    args, policies, learners, processes = trl.args, trl.policies, trl.learners, trl.processes
    rows, tokens, in_step = args.per_device_train_batch_size, args.max_tokens_per_micro_batch, trl.engine.name != "ddp"
    return Planner(
        Room(rows, tokens, policies.shares_prompts, processes.world, in_step),
        processes.rank,
        {role: frozenset(policies.shared_by(policies.weights_of[role])) & learners.keys() for role in learners},
        lambda role: learners[role].loss.proportional,
        frozenset(role for role, learner in learners.items() if learner.episodes),
        args.drop_signalless_gradients,
        policies.mixed is not None,
    )
