# Two commands from a bare machine: `make train` and `make test`. Both set up .venv first.
# verl pins what TRL does not, so `make test-verl` sets up an environment of its own.
PYTHON ?= python3
VENV ?= .venv
VENV_VERL ?= .venv-verl
export HF_HUB_OFFLINE ?= 1

.PHONY: train test test-gpu test-verl test-verl-full clean

train: $(VENV)/.installed  ## the lab: a tiny model learns sums
	$(VENV)/bin/gtpo train

test: $(VENV)/.installed  ## everything that must be green: format, lint, types, tests
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" scripts/check

test-gpu: $(VENV)/.installed  ## what needs CUDA; GTPO_GPU_MODEL names a folder with a small model for vLLM
	$(VENV)/bin/python -m pytest -m gpu tests/gpu

# Ray must not hang a build: every test has a limit, and so has the whole.
PYTEST_VERL = $(VENV_VERL)/bin/python -m pytest --timeout-method=thread -W ignore::UserWarning

test-verl: $(VENV_VERL)/.installed  ## the verl host, on a local Ray and TransferQueue
	timeout --kill-after=30 900 $(PYTEST_VERL) --timeout=240 tests/verl tests/contracts/test_verl.py

test-verl-full: $(VENV_VERL)/.installed  ## by hand: verl's main_ppo for a few steps on a CPU, with 1 and 2 workers
	timeout --kill-after=30 1800 $(PYTEST_VERL) --timeout=1200 tests/verl/full_run.py

clean:
	rm -rf $(VENV) $(VENV_VERL) runs build dist src/*.egg-info

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

$(VENV_VERL)/.installed: pyproject.toml constraints-verl.txt
	$(PYTHON) -m venv $(VENV_VERL)
	$(VENV_VERL)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-verl.txt -e '.[verl]' \
		pytest pytest-timeout beartype hypothesis
	touch $@
