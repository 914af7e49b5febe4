"""What readers of files and functions of counts refuse."""

from collections.abc import Callable, Mapping
from math import inf, nan
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset

from countdown_selfplay.cli import launch
from countdown_selfplay.cli.launch import launch_command, split_launch_options
from countdown_selfplay.contract.metric import from_json
from countdown_selfplay.data.files import load_problem_rows
from countdown_selfplay.data.jsonl import json_file, json_lines, json_rows, json_shape
from countdown_selfplay.data.run_files import discard_lines, read_phases
from countdown_selfplay.errors import DataError, GameError, PromptError
from countdown_selfplay.evaluation import bootstrap_mean, majority_at_k, paired_bootstrap, pass_at_k, pass_at_k_array
from countdown_selfplay.evaluation.sampling import sample_texts
from countdown_selfplay.policies.build import load_pretrained
from countdown_selfplay.statistics.bootstrap import ratio_interval, wilson_interval
from countdown_selfplay.training import checkpoints
from tests.refusals.parts import tokenizer
from tests.refusals.rows import row, rows
from tests.refusals.settings import joint
from tests.unit.test_part_arguments import PARTS

LINE = '{"nums": [3, 4], "target": 7}'
TOO_DEEP = "[" * 100_000


def written(read: Callable[..., Any], name: str, content: str | bytes, *more: Any) -> Any:
    """What `read` says of the file `name`."""
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return read(Path(name), *more)


def problems(path):
    return load_problem_rows(str(path))


def parquet(path):
    Dataset.from_dict({"question": [], "answer": []}).to_parquet(path)
    return problems(path)


def lines(path):
    return list(json_lines(path, "start again"))


def shaped(read: Callable[[Mapping[str, Any]], Any]) -> None:
    Path("a.json").write_text('{"config": {"size": "many"}}')
    with json_shape(Path("a.json"), "the size", "name one") as found:
        read(found)


def kept(value):
    part = type("Part", (), {"state_dict": lambda self: {"x": value}, "load_state_dict": lambda self, state: None})
    checkpoints.write_states(Path(), {"proposer": part()}, {})


def sampled(*prompts, **changes):
    """Refused before a token is drawn: there is no model."""
    return sample_texts(
        None, tokenizer(), prompts or ["1 2 = 3 :"], **{"n": 4, "max_new_tokens": 6, "seed": 5, **changes}
    )


ROWS = [
    # files of problems
    *(row(f"={name} {said}", written, problems, name, content, error=DataError) for name, content, said in [
        ("list.json", f"[null, {LINE}]", "=0: =null"), ("null.json", "null", "=null"),
        ("second.jsonl", f"{LINE}\nnull\n", "=2:"), ("numbers.json", "[1, 2]", "=0: =number"),
        ("text.jsonl", '"a"\n', "=1: =text"), ("cut.jsonl", f"{LINE}\n{LINE[:9]}", "=2:"),
        ("zeros.jsonl", b"\0" * 100, "=1:"), ("bytes.jsonl", bytes(range(256)), "=UTF-8"),
        ("deep.jsonl", TOO_DEEP, "=deeply"), ("empty.jsonl", "", "=empty"), ("blank.jsonl", "\n \n", "=empty"),
        ("objects.jsonl", "{}\n{}\n", "=empty"), ("empty.json", "", "=empty"), ("list_empty.json", "[]", "=empty"),
        ("surrogate.jsonl", '{"x": "\\ud800"}\n', "=json"), ("text.parquet", "hello\n", "=parquet"),
        ("magic.parquet", b"PAR1" + b"\0" * 99 + b"PAR1", "=parquet"), ("short.parquet", b"PAR1", "=parquet"),
        ("empty.csv", "", "=empty"), ("head.csv", "nums,target\n", "=empty"), ("zeros.csv", b"\0" * 50, "=csv"),
        ("quote.csv", 'nums,target\n"[3, 4],7\n', "=csv")]),
    row("=empty.parquet' ='empty", parquet, "empty.parquet", error=DataError),
    row("=train.jsonl =1:", written, lambda path: problems(path.parent.resolve()), "train.jsonl", "null\n",
        error=DataError),
    row("=absent.jsonl", problems, "absent.jsonl", error=DataError),
    row("=nobody/nothing ='train' =.jsonl =countdown-selfplay~dataset", problems, "nobody/nothing", error=DataError),
    row("=no/model", lambda: load_pretrained("no/model", {}), error=DataError),
    # lines and files of JSON
    *(row(f"=a.jsonl =2: {said}", written, lines, "a.jsonl", '{"a": 1}\n' + line + "\n", error=DataError)
      for line, said in [
        ("not json", "=column"), ("[1]", "=list"), ("null", "=null"), ("true", "=true"), ('"a"', "=text"),
        (TOO_DEEP, "=deeply"), ('{"a": 1', "=delimiter"), ('{"a": ' + "9" * 5000 + "}", "=digits")]),
    row("=absent.jsonl", lines, Path("absent.jsonl"), error=DataError),
    row("=b.jsonl =UTF-8", written, lines, "b.jsonl", b"\xff\xfe\n", error=DataError),
    row("to='two' =1:", written, discard_lines, "log.jsonl", '{"to": "two"}\n', 2, "to", error=DataError),
    row("samples =2:", written, read_phases, "log.jsonl",
        '{"iteration": 1, "phase": "train", "role": "prover", "rows": 3}\n{"iteration": 1, "phase": "play"}\n',
        error=DataError),
    row("=a.json =KeyError: ='batch'", shaped, lambda found: found["config"]["batch"], error=DataError),
    row("=a.json =ValueError:", shaped, lambda found: int(found["config"]["size"]), error=DataError),
    row("=a.json =TypeError:", shaped, lambda found: found["config"] + 1, error=DataError),
    row("=a.json =AttributeError: ='str'", shaped, lambda found: found["config"]["size"].items(), error=DataError),
    row("config=list", written, lambda path: json_file(path, "name one", config=list), "a.json",
        '{"config": {"size": "many"}}', error=DataError),
    *(row(f"=a.jsonl {said}", written, lambda path: json_rows(path, "start again"), "a.jsonl", text, error=DataError)
      for text, said in [
        ('[{"a": 1}, null]', "=1: =null"), ("[1]", "=0: =number"), ("[1.5", "=Expecting"), (TOO_DEEP, "=deeply"),
        ("null\n", "=null"), ('{"a": 1}\nnull\n', "=2: =null")]),
    *(row(f"=proposer/x =type {said}", kept, value, error=GameError) for value, said in [
        (object(), "=object"), ({1: 2}, "=dict"), ({"a": {3, 4}}, "=set"), (b"bytes", "=bytes"), (np.array(["text"]),
        "=ndarray"), (np.array([None]), "=ndarray")]),
    # counts
    row("=one", bootstrap_mean, [], error=DataError),
    row("=nan =1", bootstrap_mean, [0.5, nan], error=DataError),
    row("resamples=0", bootstrap_mean, [0.5], resamples=0),
    row("=2 =3", paired_bootstrap, [1, 2], [1, 2, 3], 4, error=DataError),
    row("=0 =5 =4", paired_bootstrap, [5], [1], 4, error=DataError),
    row("k=5", paired_bootstrap, [1], [1], 4, k=5),
    row("=3 =2", wilson_interval, 3, 2, error=DataError),
    row("=2, =1", ratio_interval, [1, 0], [1, 1], ["a"], error=DataError),
    row("k=2 =0", majority_at_k, [["a"]], [[True]], 2),
    row("=1 =0", majority_at_k, [["a"]], [], 1, error=DataError),
    row("=0", majority_at_k, [], [], 1, error=DataError),
    row("=2 =1", majority_at_k, [["a", "b"]], [[True]], 1, error=DataError),
    row("='a'", majority_at_k, [["a", "a"]], [[True, False]], 1, error=DataError),
    *(row(f"k={k} =4", pass_at_k, 4, 2, k) for k in (0, 5)),
    *(row(f"k={k} =4", pass_at_k_array, [2], 4, k) for k in (0, 5)),
    *(row(f"={correct} =4", pass_at_k, 4, correct, 1, error=DataError) for correct in (5, -1)),
    row("=1 =17 =16", pass_at_k_array, [3, 17], 16, 1, error=DataError),
    *(row("=Counts", pass_at_k_array, counts, 16, 1, error=DataError) for counts in ([], [[1, 2]], [0.5], [True])),
    *rows(sampled, n=0, temperature=-1.0, top_p=0.0),
    row("max_new_tokens=0 max_completion_length", sampled, max_new_tokens=0),
    row("batch_size=0 per_device_eval_batch_size", sampled, batch_size=0),
    row("temperature=nan", sampled, temperature=nan),
    row("=chat =template", sampled, [{"role": "user", "content": "7"}], error=PromptError),
    *(row(f"={said}", from_json, "a", {"trip": bounds}, error=ValueError) for bounds, said in [
        (1, "two"), ([1], "two"), ([1, 2, 3], "two"), (["1", 2], "numbers"), ([True, 2], "numbers"),
        ([2, 1], "between"), ([nan, 1], "between"), ([inf, None], "between"), ([None, -inf], "between")]),
    # arguments of parts, and launches
    *(row(says, PARTS.make, "mine", given) for says, given in [
        ("='mine' =count", {}), ("='mine' =shar ='share'", {"count": 1, "shar": 1}), ("count=True", {"count": True}),
        ("share=2", {"count": 1, "share": 2}), ("kind='c'", {"count": 1, "kind": "c"})]),
    *(row(says, split_launch_options, line.split()) for says, line in [
        ("--num_processes", "--num_processes"), ("--accelerate_config", "--accelerate_config --seed"),
        ("--num_processes=0", "--num_processes 0"), ("--num_processes=two", "--num_processes=two"),
        ("--machine_rank=-1", "--machine_rank -1")]),
    row("='zero3'", launch.config_path, "zero4"),
    row("=run.yaml =prover_learning_rat", written, lambda path: joint(f"--config {path}"), "run.yaml",
        "prover_learning_rat: 0.1\n"),
    row("--accelerate_config=list.yaml", written,
        lambda path: launch_command("joint", {"accelerate_config": str(path)}, []), "list.yaml", "- zero3\n"),
]  # fmt: skip
