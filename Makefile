# `make train` and `make test` work from a bare clone: each target installs the environment it needs.
# verl and vLLM pin other versions than TRL needs, so their tests have environments of their own.
PYTHON ?= python3
VENV ?= .venv
VENV_VERL ?= .venv-verl
VENV_VLLM ?= .venv-vllm
VENV_LOWEST ?= .venv-lowest
PIP_INSTALL = python -m pip install --quiet --disable-pip-version-check
export HF_HUB_OFFLINE ?= 1

.PHONY: train test test-all test-gpu test-vllm test-verl test-verl-full test-lowest test-matrix soak docs clean

train: $(VENV)/.installed  ## the lab: a tiny model learns sums
	$(VENV)/bin/gtpo train
	@echo "The command gtpo is in $(VENV)/bin: . $(VENV)/bin/activate"

test: $(VENV)/.installed  ## format, lint, dependencies, types, and every test that is not slow
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" scripts/check

test-all: $(VENV)/.installed  ## the same with the slow tests, as CI runs it
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" scripts/check --all

test-gpu: $(VENV)/.installed  ## tests that need CUDA; GTPO_GPU_MODEL is the folder of a small model for vLLM
	$(VENV)/bin/python -m pytest -m gpu tests/gpu

test-vllm: $(VENV_VLLM)/.installed  ## every night, and by hand: training and evaluation with vLLM in the trainer's process, on a CPU
	timeout --kill-after=30 900 $(VENV_VLLM)/bin/python -m pytest -p no:xdist --timeout=300 -W ignore::UserWarning tests/colocate

# Ray can hang: each test has a time limit, and so has the run.
PYTEST_VERL = $(VENV_VERL)/bin/python -m pytest -p no:xdist --timeout-method=thread -W ignore::UserWarning

test-verl: $(VENV_VERL)/.installed  ## the verl host, on a local Ray and TransferQueue
	timeout --kill-after=30 900 $(PYTEST_VERL) --timeout=240 tests/verl tests/contracts/test_verl.py

test-verl-full: $(VENV_VERL)/.installed  ## by hand: verl's main_ppo for a few steps on a CPU, with 1 and 2 workers
	timeout --kill-after=30 1800 $(PYTEST_VERL) --timeout=1200 tests/verl/full_run.py

LOWEST_TESTS = tests/core tests/credit tests/trl tests/contracts/test_trl.py tests/evaluation tests/rewards tests/report tests/runs \
	tests/test_package.py tests/test_records.py tests/test_statistics.py tests/cli

test-lowest: $(VENV_LOWEST)/.installed  ## by hand: the tests with the lowest versions that pyproject.toml states
	$(VENV_LOWEST)/bin/python -m pytest --numprocesses=auto --maxprocesses=8 --dist=loadfile $(LOWEST_TESTS)

test-matrix: $(VENV)/.installed  ## by hand: the contract tests on every minor version of TRL that is supported
	$(VENV)/bin/python scripts/test_matrix.py

soak: $(VENV)/.installed  ## by hand, minutes: runs that are killed and damaged must resume to the same weights
	OMP_NUM_THREADS=1 TRL_EXPERIMENTAL_SILENCE=1 $(VENV)/bin/python -m tests.soak

docs: $(VENV)/.installed  ## the documentation site, into site/
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict

clean:
	rm -rf $(VENV) $(VENV_VLLM) $(VENV_VERL) $(VENV_LOWEST) runs build dist site src/*.egg-info

$(VENV)/.installed: pyproject.toml constraints.txt
	@echo "Setting up $(VENV): some minutes, the first time only."
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/$(PIP_INSTALL) -c constraints.txt -e '.[dev]'
	touch $@

$(VENV_VERL)/.installed: pyproject.toml constraints-verl.txt
	$(PYTHON) -m venv $(VENV_VERL)
	$(VENV_VERL)/bin/$(PIP_INSTALL) -c constraints-verl.txt -e '.[verl]' pytest pytest-timeout beartype hypothesis
	touch $@

$(VENV_VLLM)/.installed: pyproject.toml constraints-vllm.txt
	$(PYTHON) -m venv $(VENV_VLLM)
	$(VENV_VLLM)/bin/$(PIP_INSTALL) --no-deps -r constraints-vllm.txt -e .
	touch $@

$(VENV_LOWEST)/.installed: pyproject.toml constraints-lowest.txt
	$(PYTHON) -m venv $(VENV_LOWEST)
	$(VENV_LOWEST)/bin/$(PIP_INSTALL) -c constraints-lowest.txt -e '.[dev]'
	touch $@
