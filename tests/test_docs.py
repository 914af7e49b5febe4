# Tests: README.md, docs, skills, packages.py
"""The README and the pages of docs/ name only what exists, and their Python runs."""

import ast
import dataclasses
import doctest
import importlib
import importlib.util
import json
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from countdown_selfplay.domains import DOMAINS
from countdown_selfplay.games import GAMES
from countdown_selfplay.guides import GUIDES
from countdown_selfplay.packages import CALLED, absent_names, absent_package
from countdown_selfplay.proposers import PROPOSERS

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "AGENTS.md", "examples/README.md", "studies/README.md")),
    *(page for name in ("docs", "skills") for page in sorted((ROOT / name).rglob("*.md"))),
]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def every(language: str) -> list[tuple[str, str]]:
    """(page and number, text) of each block in that language."""
    found = [(f"{page.name}-{n}", block) for page in PAGES for n, block in enumerate(blocks(page, language))]
    assert found
    return found


@cache
def fields() -> frozenset[str]:
    """Everything that a config file or a flag of the joint command may name."""
    from trl import ModelConfig

    from countdown_selfplay import CountdownArguments, JointSelfPlayConfig
    from countdown_selfplay.cli.joint import JointScriptArguments

    groups = (JointScriptArguments, CountdownArguments, JointSelfPlayConfig, ModelConfig)
    return frozenset(field.name for group in groups for field in dataclasses.fields(group))


def test_python_imports_and_settings_exist():
    wrong = []
    for name, block in every("python"):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and node.module and not absent_package(node.module):
                module = importlib.import_module(node.module)
                for a in (
                    a for a in node.names if a.name not in absent_names(CALLED)
                ):  # an attribute, or a module of the package that nobody has imported yet
                    inside = hasattr(module, "__path__") and find_spec(f"{node.module}.{a.name}")
                    wrong += [] if hasattr(module, a.name) or inside else [f"{name}: {node.module}.{a.name}"]
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "JointSelfPlayConfig":
                used = {keyword.arg for keyword in node.keywords if keyword.arg}
                wrong += [f"{name}: JointSelfPlayConfig({field}=)" for field in used - fields()]
    assert wrong == []


def test_flags_of_joint_commands_exist():
    from countdown_selfplay.cli.launch import LAUNCH_OPTIONS

    wrong = []
    for name, block in every("bash"):
        for line in block.replace("\\\n", " ").splitlines():
            _, found, options = (
                line.partition("joint_rloo.py") if "joint_rloo.py" in line else line.partition(" joint ")
            )
            flags = set(re.findall(r"--(\w+)", options)) if found else set()
            wrong += [f"{name}: --{flag}" for flag in flags - fields() - {"config", *LAUNCH_OPTIONS}]
    assert wrong == []


def test_settings_in_yaml_exist():
    unknown = {name: set(yaml.safe_load(block)) - fields() for name, block in every("yaml")}
    assert {name: keys for name, keys in unknown.items() if keys} == {}


def test_links_and_paths_lead_somewhere():
    broken = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        links = [t.partition("#")[0] for t in re.findall(r"\]\(([^)]+)\)", text) if "://" not in t]
        paths = re.findall(r"\b(?:examples|studies|accelerate_configs|benchmarks)/[\w./-]+\.(?:py|yaml)", text)
        broken += [f"{page.name}: {target}" for target in links if target and not (page.parent / target).exists()]
        broken += [f"{page.name}: {path}" for path in paths if not (ROOT / path).exists()]
    assert broken == []


def test_the_modules_of_the_api_page_exist():
    for name in re.findall(r"^::: (\S+)", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE):
        module, _, attribute = name.rpartition(".")
        try:
            importlib.import_module(name)
        except ModuleNotFoundError:
            assert hasattr(importlib.import_module(module), attribute), name


def shipped(registry):
    """Names of the library's own parts, which are entered by where they are; other tests enter objects."""
    return [name for name, entry in registry.items() if isinstance(entry, str)]


def script_of_docs(name):
    """A script of docs/ as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


def test_registered_names_in_the_index_are_those_of_the_registries():
    from countdown_selfplay.countdown import CONJECTURER_PROMPTS, PROVER_PROMPTS
    from countdown_selfplay.objectives import OBJECTIVES
    from countdown_selfplay.rewards import CONJECTURER_REWARDS

    rows = re.findall(r"^\| ([\w ]+) \| (.*?) \|", (ROOT / "docs" / "index.md").read_text(), re.MULTILINE)
    table = {part: set(re.findall(r"`(\w+)`", names)) for part, names in rows}
    for part, registry in {"game": GAMES, "proposer": PROPOSERS, "domain": DOMAINS, "guide": GUIDES}.items():
        assert table[part] == set(shipped(registry)), part
    assert table["objective"] == set(OBJECTIVES)
    assert table["conjecturer reward"] == set(CONJECTURER_REWARDS)
    assert table["prompts"] == set(PROVER_PROMPTS) | set(CONJECTURER_PROMPTS)


def test_an_interactive_block_prints_the_output_that_it_shows():
    for name, block in every("pycon"):
        session = doctest.DocTestParser().get_doctest(block, {}, name, None, None)
        result = doctest.DocTestRunner().run(session)
        assert result.attempted > 0 and result.failed == 0, name


@pytest.mark.matrix
def test_the_quickstart_trains_its_20_rounds_without_a_rollback(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (block,) = blocks(ROOT / "docs" / "quickstart.md", "python")
    names: dict = {}
    exec(compile(block, "quickstart", "exec"), names)
    trainer = names["trainer"]
    assert trainer.state.global_step == 20 and trainer.counts.attempt == 0
    log = (tmp_path / names["args"].output_dir / "metrics.jsonl").read_text().splitlines()
    rounds = [line for line in map(json.loads, log) if "loss" in line]
    assert [line["step"] for line in rounds] == list(range(1, 21))
    # the format holds
    assert sum(line["conjecturer/parseable_rate"] for line in rounds[-5:]) / 5 > 0.8


def test_the_skill_lists_the_rewards_that_exist():
    from countdown_selfplay.rewards import CONJECTURER_REWARDS

    text = (ROOT / "skills" / "countdown-selfplay" / "SKILL.md").read_text(encoding="utf-8")
    assert yaml.safe_load(text.split("---")[1]).keys() == {"name", "description"}
    listed = text.split("Shipped conjecturer rewards:")[1].split("\n\n")[0]
    assert set(re.findall(r"`(\w+)`", listed)) == set(CONJECTURER_REWARDS)
