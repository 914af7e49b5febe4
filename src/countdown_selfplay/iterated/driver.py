"""Algorithm 2 of Wang et al. for any game: play with the current policies, choose samples, retrain the initial
ones."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from ..contract.domain import Domain
from ..contract.game import Game
from ..contract.metric import for_players
from ..curriculum.legibility import Legibility
from ..data.jsonl import json_file
from ..data.run_files import append_lines, discard_lines, read_phases, write_atomically
from ..errors import ConfigError, DataError, RunFolderError
from ..evaluation.model import place_of
from ..evaluation.progress import ProgressLine
from ..policies.build import load_pretrained, load_tokenizer
from ..training.run_lock import run_lock
from . import pairs, select
from .collect import CollectingRound, Player, play
from .imitate import imitation, to_imitate
from .resume import differences
from .retrain import of_iteration, retrain
from .settings import IteratedSettings, check_settings

logger = logging.getLogger(__name__)

SETTINGS, LOG = "iterated.json", "iterations.jsonl"
IMITATION = "imitation"
"""What iteration 0 leaves, and the name under which the log tells of it."""


class IteratedSelfPlay:
    """Iterations of: play every problem once in chunks; choose each role's samples (or pairs, `algorithm`); retrain
    each role from its initial model on what was chosen, with what earlier iterations chose if it accumulates. With
    `imitate` the initial model of all roles is what iteration 0 makes of the one that is passed.

    models: an id or folder for all kinds, or one for each. problems: of the training side, all with keys of their own.
    A role for which nothing was chosen keeps its weights, and the log says so. Files of the run folder, all written
    whole or not at all, so that `run` goes on after a kill without losing or repeating a sample:
    `iteration-<t>/played-<chunk>.parquet` (every sample with its lineage), `iteration-<t>/<role>.parquet` (what it was
    trained on), `iteration-<t>/<role>/` (the model), `iterations.jsonl`.
    """

    def __init__(
        self,
        game: Game,
        domain: Domain[Any],
        models: str | Mapping[str, str],
        problems: Sequence[Any],
        settings: IteratedSettings,
    ) -> None:
        check_settings(settings, game, domain)
        if not problems:
            raise ConfigError("`problems` is empty; an iteration plays every problem once, so pass at least one.")
        keys = [domain.key(problem) for problem in problems]
        twice = [key for key, count in Counter(keys).items() if count > 1]
        if twice:
            raise ConfigError(f"`problems` holds '{twice[0]}' {keys.count(twice[0])} times; pass each problem once.")
        self.game, self.domain, self.problems, self.settings = game, domain, list(problems), settings
        prompt = domain.prove_row(self.problems[0])["prompt"]
        if not settings.mask_first_turn and isinstance(prompt, str):
            raise ConfigError("`mask_first_turn` (False) needs prompts that are chats; set it to true.")
        self.initial = {kind: models if isinstance(models, str) else models[kind] for kind in settings.kinds}
        if settings.imitate and len(set(self.initial.values())) > 1:
            raise ConfigError(f"`imitate` ({settings.imitate}) makes one model for all roles; pass one model for all.")
        self.folder = Path(settings.output_dir)
        metrics = for_players(getattr(game, "metrics", ()), {kind: [kind] for kind in settings.kinds})
        self.legibility = Legibility(metrics, rounds=1)  # a chunk holds as many texts as many rounds

    def run(self, tell: Callable[[dict[str, Any]], object] = lambda line: None) -> list[dict[str, Any]]:
        """Play what is missing; the log's lines, which `tell` gets one by one as they are written."""
        self.tell = tell
        self.folder.mkdir(parents=True, exist_ok=True)
        with run_lock(str(self.folder)):
            self._check_settings()
            discard_lines(self.folder / LOG, 1 << 62, "iteration")  # only a last line that a kill cut off
            for line in self.log():
                tell(line)
            done = {(line["iteration"], line["phase"], line.get("role")) for line in self.log()}
            if self.settings.imitate and (0, "train", IMITATION) not in done:
                self._imitate(Path(self.settings.imitate))
            for iteration in range(1, self.settings.iterations + 1):
                if (iteration, "play", None) not in done:
                    self._collect(iteration)
                for role in self.settings.kinds:
                    if (iteration, "train", role) not in done:
                        self._train(iteration, role)
        return self.log()

    def begun(self) -> bool:
        """Whether anything was played or trained in the folder with the settings that stand there."""
        played = any(self.folder.glob("iteration-[1-9]*/*.parquet"))
        return (self.folder / SETTINGS).exists() and (played or bool(self.log()))

    def log(self) -> list[dict[str, Any]]:
        """What the finished phases said, one line each."""
        return read_phases(self.folder / LOG)

    def weights(self, role: str, iteration: int) -> str:
        """Who plays a role in an iteration: the model that the one before left, or the last that there is, or the
        initial one. DataError if the log tells of a model that is not there."""
        left = [line["iteration"] for line in self.log() if line.get("role") == role and line["rows"]]
        earlier = [t for t in left if t < iteration]
        if not earlier:
            return self._start(role)
        return self._there(self._folder(earlier[-1]) / role)

    def _start(self, role: str) -> str:
        """What a role is trained from in every iteration."""
        return self._there(self._folder(0) / IMITATION) if self.settings.imitate else self.initial[role]

    def _there(self, model: Path) -> str:
        if not (model / "config.json").is_file():
            raise DataError(
                f"The model '{model}' is not there, and the run goes on from it; put it back, or remove the folders "
                f"of its iteration and all later ones and their lines of {LOG} to play them again."
            )
        return str(model)

    def _imitate(self, other: Path) -> None:
        """Iteration 0: one model for all roles, trained on what another run chose."""
        settings, folder = self.settings, self._folder(0)
        folder.mkdir(exist_ok=True)
        data = folder / f"{IMITATION}.parquet"
        if not data.is_file():
            select.write(data, to_imitate(other, settings.kinds, settings.imitate_rows, settings.seed))
        start = next(iter(self.initial.values()))
        how = imitation(settings.kinds.get("prover") or next(iter(settings.kinds.values())))
        cost = retrain(start, self._tokenizer(start), select.read(data), how, settings, 1, folder / IMITATION)
        if not cost["rows"]:
            raise DataError(
                f"`imitate` ({other}): all {cost['too_long']} of its samples are longer than `max_length` "
                f"({settings.max_length}), so there is nothing to imitate; raise that."
            )
        self._say(0, "train", role=IMITATION, **cost)

    def _folder(self, iteration: int) -> Path:
        return self.folder / f"iteration-{iteration}"

    def _check_settings(self) -> None:
        """RunFolderError if the folder was begun with others."""
        keys = [self.domain.key(problem) for problem in self.problems]
        now = json.loads(
            json.dumps(
                {
                    **self.settings.to_dict(),
                    "game": {"name": type(self.game).__name__, **getattr(self.game, "to_dict", dict)()},
                    "domain": self.domain.to_dict(),
                    "models": self.initial,
                    "problems": keys,
                }
            )
        )
        path = self.folder / SETTINGS
        if not self.begun():  # nothing was made of what stands there, such as a value that was refused later
            (self._folder(0) / f"{IMITATION}.parquet").unlink(missing_ok=True)  # drawn with its seed
            write_atomically(path, json.dumps(now, indent=1) + "\n")
            return
        then = json_file(path, "put back what the run wrote there, or name another output_dir")
        if isinstance(then.get("game"), str):  # begun when a game's arguments were not written down
            then["game"] = {**now["game"], "name": then["game"]}
        begun = max((line["iteration"] for line in self.log()), default=0)
        changed = differences(then, now, begun)
        if changed:
            raise RunFolderError(
                f"'{self.folder}' was begun with other settings ({'; '.join(changed)}); go on with the old ones, or "
                "name another output_dir."
            )
        if then != now:  # max_steps of more iterations
            write_atomically(path, json.dumps(now, indent=1) + "\n")

    def _collect(self, iteration: int) -> None:
        """Play all chunks that are not there yet."""
        folder, size = self._folder(iteration), self.settings.chunk
        folder.mkdir(exist_ok=True)
        chunks = [self.problems[i : i + size] for i in range(0, len(self.problems), size)]
        missing = [c for c in range(len(chunks)) if not self._played(iteration, c).is_file()]
        roster = self._roster(iteration) if missing else {}
        weights = {role: self.weights(role, iteration) for role in self.settings.kinds}
        with ProgressLine(f"iteration {iteration}, play", "chunks") as bar:
            for done, chunk in enumerate(missing, start=1):
                rows = self._play_chunk(iteration, chunk, chunks[chunk], roster, weights)
                select.write(self._played(iteration, chunk), rows)
                bar(done, len(missing))
        counts = Counter(
            f"{row['role']}/{row['label']}"
            for c in range(len(chunks))
            for row in select.read(self._played(iteration, c), ("role", "label"))
        )
        self._say(iteration, "play", samples=counts.total(), counts=dict(sorted(counts.items())))

    def _play_chunk(
        self,
        iteration: int,
        chunk: int,
        problems: Sequence[Any],
        roster: Mapping[str, Player],
        weights: Mapping[str, str],
    ) -> list[dict[str, Any]]:
        round = CollectingRound(self.domain, roster, chunk, (self.settings.seed, iteration))
        rows, metrics = play(self.game, round, problems)
        if said := self.legibility.observe(1, metrics):
            logger.warning(said)
        relative = {role: self._relative(path) for role, path in weights.items()}
        return [
            {
                **row,
                "prompt": json.dumps(row["prompt"]),
                "iteration": iteration,
                "chunk": chunk,
                "weights": relative[row["role"]],
            }
            for row in rows
        ]

    def _relative(self, path: str) -> str:
        """A model of this run by its place in the folder, which may move."""
        return str(Path(path).relative_to(self.folder)) if Path(path).is_relative_to(self.folder) else path

    def _roster(self, iteration: int) -> dict[str, Player]:
        settings = self.settings
        sampling = {
            "temperature": settings.temperature,
            "top_p": settings.top_p,
            "top_k": settings.top_k,
            "max_new_tokens": settings.max_completion_length,
            "batch_size": settings.per_device_eval_batch_size,
        }
        place = place_of(None)
        how = {"dtype": "float32" if place == "cpu" else "bfloat16"}
        loaded: dict[str, tuple[Any, Any]] = {}  # roles that begin alike share one copy
        found = {}
        for role, training in settings.kinds.items():
            path = self.weights(role, iteration)
            if path not in loaded:
                loaded[path] = load_pretrained(path, how, "merge").to(place).eval(), self._tokenizer(path)
            found[role] = Player(*loaded[path], training.num_generations, sampling)
        return found

    def _tokenizer(self, path: str) -> Any:
        tokenizer: Any = load_tokenizer(path, False)
        other = self.settings.chat_template_path
        if other is not None:
            try:
                tokenizer.chat_template = AutoTokenizer.from_pretrained(other).chat_template
            except (OSError, ValueError) as error:
                first = str(error).splitlines()[0]
                raise ConfigError(
                    f"`chat_template_path` ({other}) must name a model with a tokenizer: {first}"
                ) from None
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.eos_token
        return tokenizer

    def _played(self, iteration: int, chunk: int) -> Path:
        return self._folder(iteration) / f"played-{chunk:05d}.parquet"

    def _train(self, iteration: int, role: str) -> None:
        training, folder = self.settings.kinds[role], self._folder(iteration)
        data = folder / f"{role}.parquet"
        if not data.is_file():
            earlier = []
            if training.accumulate and iteration > 1:
                earlier = select.read(self._folder(iteration - 1) / f"{role}.parquet")
            new = select.unseen(self._chosen(iteration, role), earlier)
            select.write(data, earlier + select.balanced(new, training, self.settings.seed, iteration, role))
        rows = select.read(data)
        counts = dict(sorted(Counter(row["label"] for row in rows).items()))
        if not rows:
            self._say(iteration, "train", role=role, rows=0, note="nothing was chosen: the role keeps its weights")
            return
        if of_iteration(training.max_steps or (-1,), iteration) == 0:
            self._say(iteration, "train", role=role, rows=0, note="max_steps is 0: the role keeps its weights")
            return
        start = self._start(role)
        cost = retrain(start, self._tokenizer(start), rows, training, self.settings, iteration, folder / role)
        self._say(iteration, "train", role=role, counts=counts, **cost)

    def _chosen(self, iteration: int, role: str) -> list[select.Row]:
        """What of an iteration's play a role may be trained on: samples, or pairs."""
        settings, training = self.settings, self.settings.kinds[role]
        chunks = range(-(-len(self.problems) // settings.chunk))
        rows = (row for c in chunks for row in select.read(self._played(iteration, c)))
        key = (settings.seed, iteration, role, "pairs")
        if settings.algorithm == "dpo":
            return pairs.preferred(rows, role, training, *key)
        if settings.algorithm == "step_dpo":
            known = {self.domain.key(problem): problem for problem in self.problems}
            return pairs.stepwise(rows, training, self.domain, known, *key)
        return select.chosen(rows, role, training)

    def _say(self, iteration: int, phase: str, **more: Any) -> None:
        append_lines(self.folder / LOG, [line := {"iteration": iteration, "phase": phase, **more}])
        self.tell(line)
