"""A slow stage of .ci/run, in full where something that it depends on has changed, else its sample (ci_stages.toml).

    python tools/ci_stages.py test-lab PYTHON=.venv/bin/python   # make runs this target, or its sample
    python tools/ci_stages.py --check                            # is what the table names there?
    python tools/ci_stages.py --clean                            # is the tree that of a commit?
    python tools/ci_stages.py --write                            # .ci/verified names HEAD, at which everything passed

Compared are the working tree and the commit that .ci/verified names. Where the two cannot be compared, and where
CI_ALL is set, a stage runs in full. `make verify` and `make nightly` write .ci/verified.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLE, VERIFIED = "tools/ci_stages.toml", ".ci/verified"


def git(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", "-C", str(ROOT), "--glob-pathspecs", *arguments], capture_output=True, text=True)


def table() -> dict[str, dict]:
    """Stage -> `paths` and `sample`; "everything" -> the paths that every stage depends on."""
    return tomllib.loads((ROOT / TABLE).read_text(encoding="utf-8"))


def verified() -> tuple[str, str]:
    """The commit of .ci/verified, or "" and why it cannot be compared with."""
    if not (ROOT / VERIFIED).exists():
        return "", f"{VERIFIED} is missing"
    commit = (ROOT / VERIFIED).read_text(encoding="utf-8").strip()
    if not re.fullmatch("[0-9a-f]{40}", commit):
        return "", f"{VERIFIED} must hold the 40 digits of a commit, and holds {commit[:60]!r}"
    if git("rev-parse", "HEAD").returncode:
        return "", "this is no clone with a commit"
    if git("cat-file", "-e", f"{commit}^{{commit}}").returncode:
        return "", f"this clone lacks the commit {commit[:10]} of {VERIFIED}"
    if git("merge-base", "--is-ancestor", commit, "HEAD").returncode:
        return "", f"{commit[:10]} of {VERIFIED} is no ancestor of HEAD"
    return commit, ""


def changed(commit: str, paths: list[str]) -> list[str]:
    """Files among `paths` that are other, gone or new since `commit`, uncommitted ones included."""
    tracked = git("diff", "--name-only", "--no-renames", commit, "--", *paths)
    new = git("ls-files", "--others", "--exclude-standard", "--", *paths)
    if tracked.returncode or new.returncode:
        raise SystemExit(f"git cannot compare with {commit}: {(tracked.stderr + new.stderr).strip()}")
    return sorted({*tracked.stdout.splitlines(), *new.stdout.splitlines()})


def decide(stage: str) -> tuple[bool, str]:
    """Whether `stage` runs in full, and why."""
    if os.environ.get("CI_ALL"):
        return True, "everything is asked for (CI_ALL)"
    commit, why = verified()
    if why:
        return True, why
    rows = table()
    files = changed(commit, [*rows["everything"]["paths"], *rows[stage]["paths"]])
    since = f"since {commit[:10]} ({VERIFIED})"
    if files:
        return True, f"{files[0]}{f' and {len(files) - 1} more' if files[1:] else ''} changed {since}"
    return False, f"nothing that it depends on has changed {since}"


def sample(stage: str) -> list[str]:
    """What make is told so that it runs the sample alone, such as ["TESTS=a.py::test_b c.py"]."""
    return [f"{name}={' '.join(values)}" for name, values in table()[stage]["sample"].items()]


def wrong() -> list[str]:
    """What the table names that is not there, a sentence each."""
    targets = (ROOT / "Makefile").read_text(encoding="utf-8")
    run = set(re.findall(r"^slow_stage .* (\S+)$", (ROOT / ".ci/run").read_text(encoding="utf-8"), re.MULTILINE))
    rows = table()
    found = [f".ci/run has the slow stage {stage}, which is no row" for stage in sorted(run - set(rows))]
    for stage, row in rows.items():
        for path in row["paths"]:
            if not any(ROOT.glob(path.removeprefix(":!"))):
                found.append(f"{stage} depends on {path}, which does not exist")
        if stage == "everything":
            continue
        if stage not in run:
            found.append(f"{stage} is no slow stage of .ci/run")
        if not re.search(rf"^{stage}:(?! \w+ =)", targets, re.MULTILINE):
            found.append(f"{stage} is no target of the Makefile")
        for name, values in row["sample"].items():
            if not re.search(rf"^{stage}: {name} =", targets, re.MULTILINE):
                found.append(f"the sample of {stage} sets {name}, which the Makefile does not")
            for value in (value for value in values if ".py" in value):
                path, _, test = value.partition("[")[0].partition("::")
                file = ROOT / path
                if not file.is_file() or (test and f"def {test}(" not in file.read_text(encoding="utf-8")):
                    found.append(f"the sample of {stage} has {value}, which does not exist")
    return found


def main(arguments: list[str]) -> int:
    if arguments == ["--check"]:
        found = wrong()
        if found:
            print(f"{TABLE} names what is not there: {'; '.join(found)}")
        return bool(found)
    if arguments in (["--clean"], ["--write"]):
        files = changed("HEAD", [".", f":!{VERIFIED}"])
        if files:
            print(f"Only a commit is verified, and {files[0]} is not committed.")
        elif arguments == ["--write"]:
            (ROOT / VERIFIED).write_text(git("rev-parse", "HEAD").stdout, encoding="utf-8")
        return bool(files)
    stage, *settings = arguments
    full, why = decide(stage)
    print(f"{'In full' if full else 'Left out but for its sample'}: {why}.", flush=True)
    return subprocess.run(["make", stage, *settings, *([] if full else sample(stage))], cwd=ROOT).returncode


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
