# setup  .venv with the project, the page built     test   the whole suite
# run    the server with the sample base           check  ruff, pyright, import-linter
# bench  what the hot path costs                   wheel  the package, installed into an empty environment, served
# kills  the long run of kills                     soak   that, and a long run of load
# clean  removes what these targets made
#
# PYTHON names the interpreter that makes .venv (3.11 or newer).

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := run
.DELETE_ON_ERROR:
.PHONY: setup soak kills page run test check bench wheel clean

setup: $(STAMP) page

# --group needs pip 25.1; Debian 12's venv brings 23.
$(STAMP): pyproject.toml hatch_build.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "turnstream needs Python 3.11 or newer: make PYTHON=python3.12" >&2; exit 1; }
	@echo "installing into $(VENV); the first time this takes a minute or two"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable . --group dev
	@touch $@

# The install built it; this builds it again when web/ has changed since.
page: $(STAMP)
	@$(BIN)/python hatch_build.py

run: setup
	$(BIN)/turnstream serve --load sample

test: setup
	$(BIN)/python -m pytest -n 3

soak: kills
	SOAK=1 $(BIN)/python -m pytest tests/faults/test_load.py

kills: setup
	SOAK=1 $(BIN)/python -m pytest tests/faults/test_a_chaos.py

check: setup
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright
	$(BIN)/lint-imports

bench: setup
	$(BIN)/python -m bench

wheel: setup
	@$(BIN)/python -m tests.wheel.check

clean:
	rm -rf $(VENV) app/_page web/node_modules build dist *.egg-info .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
