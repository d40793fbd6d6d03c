# Two commands from a bare machine: `make train` and `make test`. Both set up .venv first.
PYTHON ?= python3
VENV ?= .venv
export HF_HUB_OFFLINE ?= 1

.PHONY: train test clean

train: $(VENV)/.installed  ## the lab: a tiny model learns sums
	$(VENV)/bin/gtpo train

test: $(VENV)/.installed  ## everything that must be green: format, lint, types, tests
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" scripts/check

clean:
	rm -rf $(VENV) runs build dist src/*.egg-info

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@
