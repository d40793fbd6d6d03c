# Two commands from a bare machine: `make train` and `make test`. Both set up .venv first.
PYTHON ?= python3
VENV ?= .venv
export HF_HUB_OFFLINE ?= 1

.PHONY: train test test-gpu clean

train: $(VENV)/.installed  ## the lab: a tiny model learns sums
	$(VENV)/bin/gtpo train

test: $(VENV)/.installed  ## everything that must be green: format, lint, types, tests
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" scripts/check

test-gpu: $(VENV)/.installed  ## what needs CUDA; GTPO_GPU_MODEL names a folder with a small model for vLLM
	$(VENV)/bin/python -m pytest -m gpu tests/gpu

clean:
	rm -rf $(VENV) runs build dist src/*.egg-info

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@
