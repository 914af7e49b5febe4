"""Answers of a prover as JSONL: a line with the setting, then one line per sampled answer.

A file grows by whole batches of problems. Each batch has a separate generator, seeded by the evaluation's seed and the
batch's problems, so that an interrupted evaluation continues after the last whole batch and equals an uninterrupted
one, bit for bit with the same weights, versions, device and number of threads. Weights, versions and device are part
of the setting; the number of threads is not."""

import json
import os
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from filelock import lock_descriptor

from ..contract.domain import Domain, P
from ..countdown import Problem
from ..countdown.verifier import Reason
from ..data.jsonl import json_object
from ..errors import ConfigError, DataError

_DAMAGED = "the file is damaged, so start a new one"

MARK = '{"record": "setting"'
"""Start of the first line of an answer file; a file that begins with other text is never changed."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One sampled answer.

    Attributes:
        index: position of the problem in the problem set.
        problem: key of the problem (`Domain.key`).
        sample: index among the answers to the problem, 0 to n - 1.
        answer: value for which the answer votes in majority@k, None for no vote.
        tags: number of complete answers in the text.
        tokens: number of tokens before the end token; in moves the sum over the episode.
        truncated: whether the token budget cut the text, or one of its moves.
        rung: rung of the problem; None if all problems have the same rung.
    """

    index: int
    problem: str
    operands: int | None
    sample: int
    completion: str
    score: float
    reason: str
    answer: str | None
    tags: int
    tokens: int
    truncated: bool
    stratum: str | None = None
    rung: int | None = None

    @property
    def correct(self) -> bool:
        return self.reason == Reason.CORRECT

    def to_json(self) -> str:
        """Return the answer's JSON line without the newline; `stratum` and `rung` only if present."""
        optional = [name for name in ("stratum", "rung") if getattr(self, name) is None]
        row = {name: value for name, value in asdict(self).items() if name not in optional}
        return json.dumps(row, ensure_ascii=False)


def reason_of(verdict: Any) -> str:
    """Return the verdict's reason as one word; only right answers are "correct"."""
    if verdict.correct:
        return str(Reason.CORRECT)
    return str(verdict.reason) if verdict.reason != Reason.CORRECT else "wrong"


def operands_of(problem: Any) -> int | None:
    """Return the number of operands of a Countdown problem, by which results are split; None for other domains."""
    return len(problem.numbers) if isinstance(problem, Problem) else None


def identity(domain: Any, problem: Any) -> tuple[Any, ...]:
    """Return the identity of a problem: for Countdown (numbers in their order, target), else (key,)."""
    return (problem.numbers, problem.target) if isinstance(problem, Problem) else (domain.key(problem),)


def batches_of(prompts: Sequence[Any], n: int, batch_size: int) -> list[list[int]]:
    """Return problem indices, sorted by prompt length, in batches of at most `batch_size` answers or one problem."""
    order = sorted(range(len(prompts)), key=lambda i: len(str(prompts[i])))
    size = max(1, batch_size // n)
    return [order[start : start + size] for start in range(0, len(order), size)]


def batch_key(identities: Sequence[tuple[Any, ...]], batch: Sequence[int]) -> tuple[object, ...]:
    """Return a batch's part of the seed: for each problem its identity and the number of its earlier occurrences."""
    which = times_before(identities)
    return tuple((*identities[i], which[i]) for i in batch)


def times_before(items: Sequence[Hashable]) -> list[int]:
    """Return the number of earlier occurrences of each item."""
    seen, before = Counter[Hashable](), list[int]()
    for item in items:
        before.append(seen[item])
        seen[item] += 1
    return before


def answer_batches(
    model: Any,
    tokenizer: Any,
    problems: Sequence[P],
    domain: Domain[P],
    n: int,
    *,
    seed: int = 0,
    batch_size: int = 1024,
    skip: int = 0,
    strata: Sequence[str | None] | None = None,
    **sampling: Any,
) -> Iterator[list[Answer]]:
    """Yield the judged answers of each batch of problems, without the first `skip` batches. A batch's answers
    depend only on its problems, `n`, `seed`, `batch_size` and `sampling` (as in evaluate_prover). `strata`: a
    label per problem."""
    from ..random_state import seed_from
    from .episodes import answers_at_once, rungs_of, sample_answers
    from .sampling import with_stops

    prompts = [domain.prove_row(problem)["prompt"] for problem in problems]
    identities, rungs = [identity(domain, problem) for problem in problems], rungs_of(domain, problems)
    drawn: dict[str, Any] = {"batch_size": batch_size, **with_stops(sampling, domain, "prover")}
    for batch in batches_of(prompts, n, answers_at_once(domain, batch_size))[skip:]:
        batch_seed = seed_from("answers", seed, *batch_key(identities, batch))
        chunk = [problems[i] for i in batch]
        episodes = sample_answers(model, tokenizer, chunk, domain, n, seed=batch_seed, **drawn)
        rows = []
        for index, played in zip(batch, episodes, strict=True):
            problem = problems[index]
            for sample, (text, verdict, tokens, truncated) in enumerate(played):
                rows.append(
                    Answer(
                        index=index,
                        problem=domain.key(problem),
                        operands=operands_of(problem),
                        sample=sample,
                        completion=text,
                        score=verdict.score,
                        reason=reason_of(verdict),
                        answer=getattr(verdict, "vote", None),
                        tags=getattr(verdict, "n_answers", 1),
                        tokens=tokens,
                        truncated=truncated,
                        stratum=None if strata is None else strata[index],
                        rung=None if rungs is None else rungs[index],
                    )
                )
        yield rows


@dataclass(frozen=True)
class AnswerSet:
    """Answers of an evaluation: its setting, and its rows ordered by (index, sample)."""

    setting: dict[str, Any]
    rows: list[Answer]

    @property
    def n(self) -> int:
        return int(self.setting["n"])

    def by_problem(self) -> list[list[Answer]]:
        """Return the n answers to every problem, in the order of the problem set."""
        return [self.rows[i : i + self.n] for i in range(0, len(self.rows), self.n)]


def header_line(setting: Mapping[str, Any]) -> str:
    """Return the first line of an answer file, without its newline."""
    return json.dumps({"record": "setting", **setting}, ensure_ascii=False)


def read_answers(path: Path) -> AnswerSet:
    """Read a finished answer file. Raises DataError if it is damaged, not finished, or another kind of file."""
    setting, answers, _ = scan(path)
    if setting is None:
        raise DataError(f"'{path}' holds no evaluation yet: it has no complete first line.")
    wanted = int(setting["n"]) * int(setting["n_problems"])
    if len(answers) < wanted:
        raise DataError(
            f"'{path}' holds {len(answers)} of {wanted} answers: the evaluation is not finished; run it again."
        )
    rows = sorted((row for row, _ in answers), key=lambda row: (row.index, row.sample))
    places = [(i, j) for i in range(int(setting["n_problems"])) for j in range(int(setting["n"]))]
    if [(row.index, row.sample) for row in rows] != places:
        raise DataError(f"'{path}' is damaged: its rows are not {setting['n']} answers to each problem, once each.")
    return AnswerSet(setting, rows)


def scan(path: Path) -> tuple[dict[str, Any] | None, list[tuple[Answer, int]], int]:
    """Return the setting (None if its line is incomplete), the answers, each with the byte offset at which its line
    ends, and the offset at which the setting's line ends. An incomplete last line is ignored. Raises DataError for a
    damaged line or another kind of file."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise DataError(f"'{path}' cannot be read ({error.strerror}).") from error
    mark = MARK.encode()
    if not (raw.startswith(mark) or mark.startswith(raw)):
        raise DataError(f"'{path}' is not a file of `countdown-selfplay eval`: its first line is not a setting.")
    lines = raw.split(b"\n")[:-1]
    if not lines:
        return None, [], 0
    setting = json_object(lines[0], path, 1, _DAMAGED)
    for name in ("n", "n_problems"):
        if not isinstance(setting.get(name), int):
            raise DataError(f"'{path}', line 1: the setting has no whole number '{name}'; the file is damaged.")
    start = end = len(lines[0]) + 1
    rows = []
    for number, line in enumerate(lines[1:], start=2):
        end += len(line) + 1
        try:
            rows.append((Answer(**json_object(line, path, number, _DAMAGED)), end))
        except TypeError:
            raise DataError(f"'{path}', line {number}: this is not an answer of `countdown-selfplay eval`.") from None
    return {name: value for name, value in setting.items() if name != "record"}, rows, start


def first_difference(old: Any, new: Any, name: str = "") -> tuple[str, Any, Any] | None:
    """Return the first difference of two settings as (dotted name, old, new), or None."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys([*new, *old]):
            difference = first_difference(old.get(key), new.get(key), f"{name}.{key}" if name else str(key))
            if difference is not None:
                return difference
        return None
    return None if old == new else (name, old, new)


class AnswerFile(AbstractContextManager["AnswerFile"]):
    """JSONL file of an evaluation, open for continuation; a context manager. `rows`: answers of the whole batches that
    it holds; `batches`: as from `batches_of`. Incomplete batches are removed. Raises DataError for a damaged file or
    another kind of file; ConfigError, naming the first difference, for another setting, and for a file in use."""

    def __init__(self, path: Path, setting: Mapping[str, Any], batches: Sequence[Sequence[int]]) -> None:
        self.path = path
        self.rows: list[Answer] = []
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file: IO[bytes] = path.open("ab")
            alone = lock_descriptor(self._file.fileno(), blocking=False)
        except OSError as error:
            raise ConfigError(f"`--output` ({path}) cannot be written: {error.strerror}.") from error
        try:
            if not alone:
                raise ConfigError(f"`--output` ({path}) is being written by another process; wait for it.")
            self.batches_done = self._resume(dict(setting), batches)
        except BaseException:
            self._file.close()
            raise

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def append(self, rows: Iterable[Answer]) -> None:
        """Write one batch to the disk and add it to `rows`."""
        rows = list(rows)
        self._write("".join(row.to_json() + "\n" for row in rows))
        self.rows += rows

    def _resume(self, setting: dict[str, Any], batches: Sequence[Sequence[int]]) -> int:
        old, answers, start = scan(self.path)
        if old is None:
            self._file.truncate(0)
            self._write(header_line(setting) + "\n")
            return 0
        differing = first_difference(old, json.loads(json.dumps(setting)))
        if differing is not None:
            name, before, now = differing
            raise ConfigError(
                f"`--output` ({self.path}) was begun with {name} {before!r} and this evaluation has {now!r}; go on "
                "with the same setting, or name another file."
            )
        n, done, position = int(setting["n"]), 0, 0
        for batch in batches:
            rows = [row for row, _ in answers[position : position + n * len(batch)]]
            places = [(index, sample) for index in batch for sample in range(n)]
            if [(row.index, row.sample) for row in rows] != places[: len(rows)]:
                raise DataError(f"'{self.path}' is damaged: its rows are not in the order they are written in.")
            if len(rows) < len(places):
                break
            self.rows += rows
            position += len(rows)
            start = answers[position - 1][1]
            done += 1
        self._file.truncate(start)
        return done

    def _write(self, text: str) -> None:
        try:
            self._file.write(text.encode())
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise ConfigError(f"`--output` ({self.path}) cannot be written: {error.strerror}.") from error
