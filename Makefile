# Every target runs in the virtual environment that is active; `make install` fills it.
PYTHON ?= python
export HF_HUB_OFFLINE ?= 1

.PHONY: install test test-slow test-distributed test-gpu lint format types docs bench ci

install:
	$(PYTHON) -m pip install -c constraints.txt -e '.[test]'

test:
	$(PYTHON) -m pytest

test-slow:
	$(PYTHON) -m pytest -m "slow and not gpu and not vllm"

test-distributed:
	$(PYTHON) -m pytest -m "distributed and not gpu and not vllm"

test-gpu:
	$(PYTHON) -m pytest -m gpu

lint:
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .

format:
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .

types:
	$(PYTHON) -m mypy

docs:
	$(PYTHON) -m pip install -c constraints.txt -e '.[docs]'
	$(PYTHON) -m mkdocs build --strict

bench:
	$(PYTHON) benchmarks/step_overhead.py

ci:
	.ci/run
