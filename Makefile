# Two commands from a bare machine: `make train` and `make test`. Both set up .venv first.
PYTHON ?= python3
VENV ?= .venv
export HF_HUB_OFFLINE ?= 1

.PHONY: train test check clean

train: $(VENV)/.installed  ## a short GTPO run on a tiny model made on the spot
	$(VENV)/bin/python examples/first_run.py

test: $(VENV)/.installed  ## everything that must be green: format, lint, types, tests
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" scripts/check

clean:
	rm -rf $(VENV) runs build dist src/*.egg-info

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@
