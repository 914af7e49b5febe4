"""Short runs that went well, one of each system, and runs that are broken in a known way: their commands, and what a
report reads of them (ten_runs.json), so that rules of findings are tried on all of them at once.

    python -m tests.unit.evaluation.ten_runs NAME=RUN_FOLDER ...   # replaces the excerpts of these

The starts of pool, sgs and cdg are those of `--prepare`; BROKEN adds options to joint's recipe tiny/default.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path

from countdown_selfplay.contract.metric import UNBOUNDED, as_json, declaration_of
from countdown_selfplay.countdown.domain import CURES
from countdown_selfplay.evaluation.load import load_run, shipped

FILE = Path(__file__).with_suffix(".json")
ROUNDS = 30
"""Of an excerpt: so many of the run, evenly spaced, the first and the last among them."""

WELL = {
    "joint": "joint --recipe tiny/default", "ladder": "joint --recipe tiny/ladder",
    "symbolic": "symbolic --recipe tiny/symbolic_ours", "pool": "pool --recipe tiny/pool --max_steps 40",
    "sgs": "sgs --recipe tiny/sgs", "cdg": "cdg --training online --recipe tiny/cdg --max_steps 40",
}  # fmt: skip
BROKEN = {
    # the prover's weights are random ones of the tiny model's shape
    "cannot answer": "--model_name_or_path random --conjecturer_model tiny --max_steps 20 --guard false",
    "collapsed conjecturer": "--conjecturer_temperature 0.02 --max_steps 30",
    "starved": "--operands 6 --max_steps 15",
    "learning rate": "--prover_learning_rate 1e-2 --conjecturer_learning_rate 1e-2 --max_steps 15 --guard false",
    "wrong prompt": "--conjecturer_prompt compact_any --max_steps 12 --guard false",
}


def excerpt(folder):
    """What findings read: metrics with a range, reasons of refusal, the differences of the evaluation, the design."""
    run = load_run(Path(folder))
    judged = [name for name, one in run.declared.items() if one.healthy != UNBOUNDED or one.trip or one.in_a_row]
    design = [name for name in run.names if name.endswith(("/moves", "/unsolvable_share", "targets/solve_rate"))]
    design += sorted(name for name in run.names if name.startswith("round/rung_") and name.endswith("_played"))[:2]
    places = {round(i * (len(run.rounds) - 1) / (ROUNDS - 1)) for i in range(ROUNDS)}
    rows = [run.rounds[place] for place in sorted(places)]
    columns = {name: [None if name not in row else round(row[name], 3) for row in rows] for name in judged + design}
    refused = [{name: one.get(name) for name in ("role", "reason", "problem")} for one in run.samples if "role" in one]
    written = json.loads((Path(folder) / "run.json").read_text())
    return {
        "config": {name: written["config"][name] for name in ("steps_per_round", "max_steps")},
        "steps": [int(row["step"]) for row in rows],
        "columns": columns,
        "samples": [one for one in refused if one["role"].startswith("conjecturer")][-10:],
    }


def write_folder(name, folder):
    """A run folder of the excerpt, with the declarations of today and Countdown's cures."""
    found = json.loads(FILE.read_text())[name]
    folder.mkdir(parents=True)
    declared = {}
    for logged in found["columns"]:
        (template, *_) = [one for one in shipped() if declaration_of(logged, [one])]
        one = declaration_of(logged, [replace(template, cure=CURES.get(template.name, template.cure))])
        declared[logged] = as_json(one)
    (folder / "run.json").write_text(json.dumps({"config": found["config"], "metrics": declared}))
    columns = {name: iter(values) for name, values in found["columns"].items()}
    rows = [{"step": step} | {name: next(values) for name, values in columns.items()} for step in found["steps"]]
    for file, lines in (("metrics", rows), ("samples", found["samples"])):
        (folder / f"{file}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


if __name__ == "__main__":
    known = json.loads(FILE.read_text()) if FILE.exists() else {}
    known |= {name: excerpt(folder) for name, _, folder in (word.partition("=") for word in sys.argv[1:])}
    lines = [f"{json.dumps(name)}: {json.dumps(known[name])}" for name in (*WELL, *BROKEN) if name in known]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
