"""Algorithm 2 of Wang et al. for any game: play with the current policies, choose samples, retrain the initial
policies."""

import json
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from transformers import AutoTokenizer

from ...chat_templates import ready
from ...contract.domain import Domain
from ...contract.game import Game
from ...contract.metric import for_players
from ...curriculum.guard import Legibility
from ...data.jsonl import json_file
from ...data.run_files import append_lines, discard_lines, read_phases, write_atomically
from ...distributed.choose import choose_engine
from ...distributed.processes import ALONE, Processes, processes_of
from ...domains import example_prompts
from ...errors import ConfigError, DataError, RunFolderError, shortened
from ...evaluation.answers import first_difference
from ...evaluation.terminal import ProgressLine
from ...policies.build import load_tokenizer
from ...training.run_lock import run_lock
from ..training import load_whole
from . import select
from .collecting import CollectingRound, Player
from .engine import Spread, VLLMPlay, check_engine
from .retrain import retrain, trainer_settings
from .settings import IteratedSettings, RoleTraining, check_settings, check_sizes, of_iteration

logger = logging.getLogger(__name__)

SETTINGS, LOG = "iterated.json", "iterations.jsonl"
IMITATION = "imitation"
"""Name of iteration 0's model and of its phase in the log."""
_MOST = 120  # characters of a value that an error shows


class IteratedSelfPlay:
    """Iterated self-play. An iteration plays every problem once, in chunks; chooses each role's samples (or pairs,
    `algorithm`); and retrains each role from its initial model on them, with those of earlier iterations if it
    accumulates. With `imitate`, iteration 0 trains the passed model, and the result is the initial model of all roles.
    model: an id or folder. problems: of the training split, all with different keys. A role without chosen samples
    keeps its weights, as the log records. Files of the run folder are written atomically, so that `run` continues
    after a kill without losing or repeating a sample: `iteration-<t>/played-<chunk>.parquet` (every sample with its
    origin), `iteration-<t>/<role>.parquet` (its training set), `iteration-<t>/<role>/` (the model),
    `iterations.jsonl`. In a launch all processes call `run`: they share generation by batches, so that the samples do
    not depend on their number, and train under the launch's engine; the main one writes."""

    def __init__(
        self,
        game: Game,
        domain: Domain[Any],
        model: str,
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
        self.initial = dict.fromkeys(settings.kinds, model)
        self.folder = Path(settings.output_dir)
        metrics = for_players(game.metrics, {kind: [kind] for kind in settings.kinds})
        self.legibility = Legibility(metrics, rounds=1)  # a chunk holds as many texts as many rounds
        self.processes: Processes = ALONE  # until they meet
        self.engine: VLLMPlay | None = None  # samples, if the models do not

    def meet(self) -> Processes:
        """Return the launch's processes. Raises ConfigError, before any play, for an inactive engine, and if they
        cannot share the roles' steps."""
        args = trainer_settings(self.settings, self.folder)  # which starts their group
        accelerator = Accelerator(deepspeed_plugin=args.deepspeed_plugin)
        choose_engine(args).bind(accelerator, None, args.max_grad_norm)
        self.processes = processes_of(accelerator)
        check_sizes(self.settings, self.processes.world)
        if self.settings.generation_backend != "generate":
            check_engine(self.settings, self.processes)
            self.engine = self.engine or VLLMPlay(self.settings, self.processes)
        return self.processes

    def run(self, tell: Callable[[dict[str, Any]], object] = lambda line: None) -> list[dict[str, Any]]:
        """Run the missing phases; return the lines of the log, which `tell` receives as they are written."""
        self.tell = tell
        self.meet()
        with run_lock(str(self.folder)):
            done = self.processes.together(self._begin)
            if self.settings.imitate and (0, "train", IMITATION) not in done:
                self._imitate(Path(self.settings.imitate))
            for iteration in range(1, self.settings.iterations + 1):
                if (iteration, "play", None) not in done:
                    self._collect(iteration)
                for role in self.settings.kinds:
                    if (iteration, "train", role) not in done:
                        self._train(iteration, role)
            return self.processes.together(self.log)

    def _begin(self) -> set[tuple[Any, ...]]:
        """Check the folder and report its finished phases; return (iteration, phase, role) of each."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._check_settings()
        discard_lines(self.folder / LOG, 1 << 62, "iteration")  # only a last line that a kill cut off
        for line in self.log():
            self.tell(line)
        return {(line["iteration"], line["phase"], line.get("role")) for line in self.log()}

    def begun(self) -> bool:
        """Return whether a phase with these settings is finished in the folder."""
        played = any(self.folder.glob("iteration-[1-9]*/*.parquet"))
        return (self.folder / SETTINGS).exists() and (played or bool(self.log()))

    def log(self) -> list[dict[str, Any]]:
        return read_phases(self.folder / LOG)

    def weights(self, role: str, iteration: int) -> str:
        """Return the model that plays a role in an iteration: the last one of an earlier iteration, or the initial
        one. Raises DataError if a logged model is absent."""
        left = [line["iteration"] for line in self.log() if line.get("role") == role and line["rows"]]
        earlier = [t for t in left if t < iteration]
        if not earlier:
            return self._start(role)
        return self._there(self._folder(earlier[-1]) / role)

    def _start(self, role: str) -> str:
        """Return the model from which a role is trained in every iteration."""
        return self._there(self._folder(0) / IMITATION) if self.settings.imitate else self.initial[role]

    def _there(self, model: Path) -> str:
        if not (model / "config.json").is_file():
            raise DataError(
                f"The model '{model}' is not there, and the run goes on from it; put it back, or remove the folders "
                f"of its iteration and all later ones and their lines of {LOG} to play them again."
            )
        return str(model)

    def _imitate(self, other: Path) -> None:
        """Train iteration 0: one model for all roles, on the samples that another run chose."""
        settings, folder = self.settings, self._folder(0)
        data = folder / f"{IMITATION}.parquet"

        def choose() -> None:
            folder.mkdir(exist_ok=True)
            if not data.is_file():
                select.write(data, select.to_imitate(other, settings.kinds, settings.imitate_rows, settings.seed))

        self.processes.together(choose)
        start = next(iter(self.initial.values()))
        first = settings.kinds.get("prover") or next(iter(settings.kinds.values()))
        # Wang et al. do not say how: as the prover's first iteration, one epoch.
        how = RoleTraining(learning_rate=first.learning_rate[:1], batch_size=first.batch_size[:1])
        cost = self._retrained(start, select.read(data), how, 1, folder / IMITATION)
        if not cost["rows"]:
            raise DataError(
                f"`imitate` ({other}): all {cost['too_long']} of its samples are longer than `max_length` "
                f"({settings.max_length}), so there is nothing to imitate; raise that."
            )
        self._say(0, "train", role=IMITATION, **cost)

    def _folder(self, iteration: int) -> Path:
        return self.folder / f"iteration-{iteration}"

    def _check_settings(self) -> None:
        """Raise RunFolderError if the folder has other settings."""
        keys = [self.domain.key(problem) for problem in self.problems]
        game = {"name": type(self.game).__name__, **self.game.to_dict()}
        parts = {"game": game, "domain": self.domain.to_dict(), "models": self.initial, "problems": keys}
        now = json.loads(json.dumps({**self.settings.to_dict(), **parts}))
        path = self.folder / SETTINGS
        if not self.begun():  # its settings made nothing, such as a value that was refused later
            (self._folder(0) / f"{IMITATION}.parquet").unlink(missing_ok=True)  # drawn with its seed
            write_atomically(path, json.dumps(now, indent=1) + "\n")
            return
        then = json_file(path, "put back the file that the run wrote, or name another output_dir")
        begun = max((line["iteration"] for line in self.log()), default=0)
        changed = first_difference(comparable(then, begun), comparable(now, begun))
        if changed:
            old, new = (shortened(json.dumps(value), _MOST) for value in changed[1:])
            raise RunFolderError(
                f"'{self.folder}' was begun with other settings ({changed[0]}: {old}, now {new}); go on with the old "
                "ones, or name another output_dir."
            )
        if then != now:  # max_steps of more iterations
            write_atomically(path, json.dumps(now, indent=1) + "\n")

    def _collect(self, iteration: int) -> None:
        """Play all chunks whose file is absent."""
        size, processes = self.settings.chunk, self.processes
        chunks = [self.problems[i : i + size] for i in range(0, len(self.problems), size)]

        def absent() -> list[int]:
            self._folder(iteration).mkdir(exist_ok=True)
            return [c for c in range(len(chunks)) if not self._played(iteration, c).is_file()]

        missing = processes.together(absent)
        weights = processes.together(lambda: {role: self.weights(role, iteration) for role in self.settings.kinds})
        spread = Spread(processes, self._roster(weights) if missing else {})
        if not processes.main:
            spread.serve()
            return
        with spread.led(), ProgressLine(f"iteration {iteration}, play", "chunks") as bar:
            for done, chunk in enumerate(missing, start=1):
                rows = self._play_chunk(iteration, chunk, chunks[chunk], spread, weights)
                select.write(self._played(iteration, chunk), rows)
                bar(done, len(missing))
        counts = Counter(
            f"{row['role']}/{row['label']}"
            for c in range(len(chunks))
            for row in select.read(self._played(iteration, c), ("role", "label"))
        )
        by = {} if self.engine is None else {"backend": self.settings.generation_backend}
        self._say(iteration, "play", samples=counts.total(), counts=dict(sorted(counts.items())), **by)

    def _play_chunk(
        self, iteration: int, chunk: int, problems: list[Any], spread: Spread, weights: dict[str, str]
    ) -> list[select.Row]:
        """Return a row per sample of every turn, without truncated ones, which would teach the model not to end. A row
        holds its problem's columns, from which the domain reads it."""
        round: Any = CollectingRound(
            self.domain, spread.roster, chunk, (self.settings.seed, iteration), draw=spread.draw
        )
        result = self.game.play(round, problems)
        if warning := self.legibility.observe(1, result.metrics):
            logger.warning(warning)
        rows = []
        for number, turn in enumerate(result.turns):
            samples = turn.rollout
            labels, shown = (given or [None] * len(samples.texts) for given in (turn.labels, turn.shown))
            rewards = torch.as_tensor(turn.rewards_B).tolist()
            for i, text in enumerate(samples.texts):
                if not round.truncated[id(samples)][i]:
                    request = samples.rows[i // samples.n]
                    row = {"role": samples.role, "turn": number, "prompt": json.dumps(request["prompt"])}
                    row |= {"completion": text, "shown": shown[i], "reward": rewards[i], "label": labels[i] or ""}
                    row |= {"problem": self.domain.key(self.domain.problem(request, i)), "iteration": iteration}
                    rows.append(row | {"chunk": chunk, "weights": self._relative(weights[samples.role])})
        return rows

    def _relative(self, path: str) -> str:
        """Return a model of this run by its path in the folder, which may move."""
        return str(Path(path).relative_to(self.folder)) if Path(path).is_relative_to(self.folder) else path

    def _roster(self, weights: Mapping[str, str]) -> dict[str, Player]:
        place = self.processes.device
        home = place if self.engine is None else self.engine.home
        how = {"dtype": "float32" if place.type == "cpu" else "bfloat16"}
        sampling = {**self.settings.sampling, "batch_size": self.settings.per_device_eval_batch_size}
        loaded: dict[str, tuple[Any, Any]] = {}  # roles that begin alike share one copy
        roster = {}
        for role, training in self.settings.kinds.items():
            path = weights[role]
            if path not in loaded:
                tokenizer = tokenizer_of(path, self.settings, self.domain, self.problems)
                loaded[path] = load_whole(path, how).to(home).eval(), tokenizer
            roster[role] = Player(*loaded[path], training.num_generations, sampling)
        return roster if self.engine is None else self.engine.roster(roster, weights)

    def _played(self, iteration: int, chunk: int) -> Path:
        return self._folder(iteration) / f"played-{chunk:05d}.parquet"

    def _train(self, iteration: int, role: str) -> None:
        training, folder = self.settings.kinds[role], self._folder(iteration)
        data = folder / f"{role}.parquet"

        def choose() -> None:
            if data.is_file():
                return
            earlier = []
            if training.accumulate and iteration > 1:
                earlier = select.read(self._folder(iteration - 1) / f"{role}.parquet")
            new = select.unseen(self._chosen(iteration, role), earlier)
            select.write(data, earlier + select.balanced(new, training, self.settings.seed, iteration, role))

        self.processes.together(choose)
        rows = select.read(data)
        counts = dict(sorted(Counter(row["label"] for row in rows).items()))
        if not rows or of_iteration(training.max_steps or (-1,), iteration) == 0:
            why = "max_steps is 0" if rows else "nothing was chosen"
            self._say(iteration, "train", role=role, rows=0, note=f"{why}: the role keeps its weights")
            return
        cost = self._retrained(self._start(role), rows, training, iteration, folder / role)
        self._say(iteration, "train", role=role, counts=counts, **cost)

    def _retrained(
        self, start: str, rows: list[select.Row], training: RoleTraining, iteration: int, folder: Path
    ) -> dict[str, Any]:
        tokenizer = tokenizer_of(start, self.settings, self.domain, self.problems)
        return retrain(start, tokenizer, rows, training, self.settings, iteration, folder, self.processes)

    def _chosen(self, iteration: int, role: str) -> list[select.Row]:
        """Return the samples of an iteration's play, or pairs of them, for the training of a role."""
        settings, training = self.settings, self.settings.kinds[role]
        chunks = range(-(-len(self.problems) // settings.chunk))
        rows = (row for c in chunks for row in select.read(self._played(iteration, c)))
        key = (settings.seed, iteration, role, "pairs")
        if settings.algorithm == "dpo":
            return select.preferred(rows, role, training, *key)
        if settings.algorithm == "step_dpo":
            known = {self.domain.key(problem): problem for problem in self.problems}
            return select.stepwise(rows, training, self.domain, known, *key)
        return select.chosen(rows, role, training)

    def _say(self, iteration: int, phase: str, **more: Any) -> None:
        """Append a line to the log, on the main process."""
        if self.processes.main:
            append_lines(self.folder / LOG, [line := {"iteration": iteration, "phase": phase, **more}])
            self.tell(line)


def comparable(settings: Mapping[str, Any], iterations: int) -> dict[str, Any]:
    """Return the settings of a run, with `max_steps` of the first `iterations` only: a resume may add iterations."""
    begun = range(1, iterations + 1)
    roles = {
        kind: {**role, "max_steps": role["max_steps"] and [of_iteration(role["max_steps"], t) for t in begun]}
        for kind, role in settings["role_training"].items()
    }
    return {**settings, "role_training": roles}


def tokenizer_of(path: str, settings: IteratedSettings, domain: Any, problems: Sequence[Any]) -> Any:
    """Return the tokenizer of the model at `path`, prepared for the run's prompts, questions to critics included."""
    tokenizer: Any = load_tokenizer(path, False)
    other = settings.chat_template_path
    if other is not None:
        try:
            tokenizer.chat_template = AutoTokenizer.from_pretrained(other).chat_template
        except (OSError, ValueError) as error:
            first = str(error).splitlines()[0]
            message = f"`chat_template_path` ({other}) must name a model with a tokenizer: {first}"
            raise ConfigError(message) from None
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    rows = [{"prover": domain.prove_row(problem)} for problem in problems[:1]]
    prompts = [prompt for row in rows for prompt in example_prompts(domain, row, dialogues=True)]
    return ready(tokenizer, prompts, settings.chat_template_kwargs)
