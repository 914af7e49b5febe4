# Tests: errors.py, pyproject.toml, .ci/run
"""The package as a whole: what an import costs, who may import whom, what the README, CI and the wheel hold."""

import ast
import importlib.util
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from countdown_selfplay.packages import BESIDE, absent_package

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "countdown_selfplay"
SOURCES = sorted(PACKAGE.rglob("*.py"))

# One number a folder: a file imports from folders of its own number or below.
LAYERS = {
    # leaves that everyone may use
    **dict.fromkeys(("errors", "options", "packages", "registry", "random_state", "__version__"), 0),
    **dict.fromkeys(("_trl", "_transformers", "_trl_check", "asking", "chat_templates"), 0),
    **dict.fromkeys(("countdown", "contract"), 1),
    **dict.fromkeys(("domains", "rewards", "objectives", "statistics", "data", "tiny"), 2),
    **dict.fromkeys(("curriculum", "proposers", "guides"), 3),
    "games": 4,
    "config": 5,
    "policies": 6,
    **dict.fromkeys(("distributed", "generation", "evaluation"), 7),
    "training": 8,
    **dict.fromkeys(("planning", "testing", "parser"), 9),
    "cli": 10,
    # beside the core, which imports none of them
    "warm_starts": 11,
    "worlds": 12,
    "lab": 13,
}


SCRIPT_FOLDERS = [name for name in ("examples", "studies", "benchmarks", "tools") if (ROOT / name).exists()]
HEAVY = {"torch", "trl", "transformers", "accelerate", "peft", "datasets", "matplotlib", "jinja2"}


def imports_of(path: Path, top_level_only: bool = False) -> set[str]:
    """Absolute names of the modules that a file imports, without those under TYPE_CHECKING."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            node.body = []
    package = ["countdown_selfplay", *path.relative_to(PACKAGE).parts[:-1]]
    names: set[str] = set()
    for node in tree.body if top_level_only else ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            names |= {module} if node.module else {f"{module}.{alias.name}" for alias in node.names}
    return names


def part_of(module: str) -> str:
    """ "countdown_selfplay.games.base" -> "games" """
    return module.split(".")[1]


def test_imports_run_downward():
    wrong = []
    for path in SOURCES:
        own = path.relative_to(PACKAGE).with_suffix("").parts[0]
        if own == "__init__":
            continue  # the package's own lazy names point at the top layer
        wrong += [
            f"{path.relative_to(PACKAGE)} (layer {LAYERS[own]}) imports {module} (layer {LAYERS[part_of(module)]})"
            for module in sorted(imports_of(path))
            if module.startswith("countdown_selfplay.") and LAYERS[part_of(module)] > LAYERS[own]
        ]
    assert wrong == []


def test_the_domain_needs_only_numpy_and_the_standard_library():
    allowed = {"numpy", "countdown_selfplay"} | set(sys.stdlib_module_names)
    paths = sorted((PACKAGE / "countdown").rglob("*.py"))
    outside = {path.name: {name.split(".")[0] for name in imports_of(path)} - allowed for path in paths}
    assert paths and {name: found for name, found in outside.items() if found} == {}


SCRIPTS = [path for folder in SCRIPT_FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]


def test_the_names_that_a_script_imports_from_the_package_exist():
    """Most are imported in the middle of a run: a module that has moved would show after the training."""
    missing = []
    for path in SCRIPTS:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("countdown_selfplay"):
                continue
            place = PACKAGE.parent.joinpath(*node.module.split("."))
            if (place / "__init__.py").exists() or absent_package(node.module):
                continue  # a package, whose names may be lazy, or one that is not installed
            absent = {alias.name for alias in node.names} - defined_in(place.with_suffix(".py"))
            missing += [f"{path.relative_to(ROOT)}, line {node.lineno}: {node.module}.{name}" for name in absent]
    assert SCRIPTS and missing == []


def defined_in(path: Path) -> set[str]:
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8")))) if path.exists() else []
    defined = {n.name for n in nodes if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    defined |= {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return defined | {a.asname or a.name for n in nodes if isinstance(n, ast.ImportFrom) for a in n.names}


def test_no_source_file_has_more_than_400_lines():
    lengths = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES}
    assert {name: length for name, length in lengths.items() if length > 400} == {}


def test_every_module_says_what_it_is():
    silent = [str(path.relative_to(ROOT)) for path in SOURCES if not ast.get_docstring(ast.parse(path.read_text()))]
    assert silent == []


def test_importing_the_pure_parts_loads_no_heavy_library():
    """One after the other in one process; the first that prints a name loads it."""
    parts = ["", *(f".{part}" for part in ("countdown", "rewards", "evaluation", "cli.main"))]
    code = "import sys\n" + "".join(
        f"import countdown_selfplay{part}\nprint({part!r}, *sorted({HEAVY!r} & set(sys.modules)))\n" for part in parts
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [line.strip() for line in done.stdout.splitlines()] == parts


def test_the_lazy_names_exist_and_an_unknown_one_is_an_attribute_error():
    import countdown_selfplay

    for name in countdown_selfplay.__all__:
        assert getattr(countdown_selfplay, name) is not None
        assert name in dir(countdown_selfplay)
    with pytest.raises(AttributeError, match="no attribute 'JointTrainer'"):
        _ = countdown_selfplay.JointTrainer


# What is written down about the project


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_constraints_satisfy_the_declared_ranges():
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    pins = {}
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, version = line.split("==")
            pins[canonicalize_name(name)] = version
    extras = project()["optional-dependencies"]
    for text in [*project()["dependencies"], *extras["test"], *extras["docs"]]:
        wanted = Requirement(text)
        assert canonicalize_name(wanted.name) in pins, f"{wanted.name} is not pinned"
        assert wanted.specifier.contains(pins[canonicalize_name(wanted.name)]), f"{text}, pinned {pins[wanted.name]}"


README_LINES = {
    "run": "pip install -c constraints.txt -e . && accelerate launch examples/joint_rloo.py --recipe tiny/ladder",
    "test": "pip install -c constraints.txt -e '.[test]' && pytest -n 2 --dist loadfile",
}


def test_the_readme_marks_the_line_to_run_and_the_line_to_test():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    marked = re.findall(r"^<!-- ci:(\w+) -->\n```bash\n(.*)\n```\n<!-- /ci:\1 -->$", readme, re.MULTILINE)
    setup = "python -m venv .venv && . .venv/bin/activate && "
    assert marked == [(name, setup + line) for name, line in README_LINES.items()]


def ci_dry_run(folder: Path, readme: str) -> subprocess.CompletedProcess[str]:
    """.ci/run in `folder` with `bash -c`, python, and the later stages replaced by programs that only record."""
    (folder / ".ci").mkdir()
    (folder / ".ci" / "run").write_bytes((ROOT / ".ci" / "run").read_bytes())
    (folder / ".ci" / "run").chmod(0o755)
    (folder / "README.md").write_text(readme)
    python = folder / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "python $*" >> "$CI_LOG"\n')
    python.chmod(0o755)
    (folder / "Makefile").write_text('lint types test-old-trl:\n\t@echo make $@ $(PYTHON) >> "$$CI_LOG"\n')
    environment = {**os.environ, "CI_LOG": str(folder / "log")}
    environment.pop("CI_RUN_LIMITED", None)
    return subprocess.run(
        [str(folder / ".ci" / "run")], capture_output=True, text=True, stdin=subprocess.PIPE, env=environment,
    )  # fmt: skip


TWO_LINES = (
    "# x\n<!-- ci:run -->\n```bash\necho one $CI $HF_HUB_OFFLINE >> $CI_LOG\n```\n<!-- /ci:run -->\n"
    "<!-- ci:test -->\n```bash\n{test}\n```\n<!-- /ci:test -->\n"
)


def test_ci_runs_the_two_lines_of_the_readme_and_then_the_checks(tmp_path):
    done = ci_dry_run(tmp_path, TWO_LINES.format(test="echo two >> $CI_LOG"))
    assert done.returncode == 0, done.stdout + done.stderr
    checks = [f"make {target} .venv/bin/python" for target in ("lint", "types", "test-old-trl")]
    slow = ["lab", "warm-starts", "worlds", "matrices", "examples", "notebooks", "studies", "dependencies"]
    slow += ["emulated-gpu", "vllm"]
    checks += [f"python tools/ci_stages.py test-{stage} PYTHON=.venv/bin/python" for stage in slow]
    assert (tmp_path / "log").read_text().splitlines() == ["one true 1", "two", *checks]


def test_ci_stops_at_the_first_stage_that_fails(tmp_path):
    done = ci_dry_run(tmp_path, TWO_LINES.format(test="echo two >> $CI_LOG; exit 3"))
    assert done.returncode == 3
    *_, first, second = done.stdout.splitlines()  # the table, of those that ran
    row = r" +\d+ s +\d+ CPU s  README line {}: install and {}"
    assert re.fullmatch(row.format(1, "train"), first)
    assert re.fullmatch(row.format(2, r"test: failed \(3\)"), second)
    assert (tmp_path / "log").read_text().splitlines() == ["one true 1", "two"]


def test_every_folder_of_tests_is_in_line_2_or_in_a_stage():
    """A new folder under tests/ is one of the default ones, or a target of the Makefile names it."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    smoke = {name: [p for p in config["testpaths"] if p.startswith(f"tests/{name}/")] for name in BESIDE}
    assert all(smoke.values())
    absent = [path for path in config["testpaths"] if not list(ROOT.glob(path))]
    assert absent == [path for name, paths in smoke.items() if absent_package(name) for path in paths]
    folders = {f"tests/{path.relative_to(ROOT / 'tests').parts[0]}" for path in (ROOT / "tests").rglob("*/test_*.py")}
    staged = set(re.findall(r"tests/\w+", makefile)) | {"tests/gpu"}
    assert folders - set(config["testpaths"]) <= staged


def _of_the_gpu_hour():
    """Its jobs, which it starts as programs, and the modules of benchmarks/ that they import."""
    folder, found = ROOT / "benchmarks", set()
    ahead = set(re.findall(r'^    "(\w+)": "', (folder / "gpu_hour.py").read_text(), re.MULTILINE))
    while ahead:
        found |= ahead
        imported = {
            name
            for one in ahead
            for name in re.findall(r"^from (\w+) import", (folder / f"{one}.py").read_text(), re.M)
        }
        ahead = {name for name in imported if (folder / f"{name}.py").exists()} - found
    return found


@pytest.mark.skipif(importlib.util.find_spec("hatchling") is None, reason="hatchling is not installed")
def test_the_wheel_holds_the_package_its_data_the_recipes_and_the_launch_configs(tmp_path):
    line = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    inside = {name.removeprefix("countdown_selfplay/") for name in names if name.startswith("countdown_selfplay/")}
    in_source = {
        *(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*") if path.is_file()),
        *(f"accelerate_configs/{path.name}" for path in (ROOT / "accelerate_configs").iterdir()),
        *(f"recipes/{p.relative_to(ROOT / 'examples/recipes')}" for p in (ROOT / "examples/recipes").rglob("*.yaml")),
        *("slurm/joint.sbatch", "benchmarks/gpu_hour.py", *(f"benchmarks/{name}.py" for name in _of_the_gpu_hour())),
    }
    assert inside == {name for name in in_source if "__pycache__" not in name}
    assert {"py.typed", "accelerate_configs/zero3.yaml"} <= inside
    assert {name.split("/")[0] for name in names} == {"countdown_selfplay", wheel.name.split("-py3")[0] + ".dist-info"}
    assert wheel.stat().st_size < 5_900_000  # 5.1 MB are the weights of the embedded models
