# `make demo` and `make test` set up what they need in .venv and need nothing but Python 3.11+ and the package registry.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
DEMO ?= demo
STAMP = $(VENV)/.installed

.PHONY: demo test check clean

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("tokenbench-tui needs Python 3.11 or later; set PYTHON=python3.11" if sys.version_info < (3, 11) else 0)'
	@echo 'Setting up $(VENV): a minute or two, about 1 GB with the agent CLI that the rehearsal extra brings.'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[test]'
	@touch $(STAMP)

demo: $(STAMP)
	$(BIN)/tokenbench-tui demo $(DEMO)

test: $(STAMP)
	@.ci/bubblewrap
	$(BIN)/python -m pytest --numprocesses 2

check: $(STAMP)
	$(BIN)/ruff format --check core tui tests benchmarks
	$(BIN)/ruff check core tui tests benchmarks
	$(BIN)/basedpyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports

clean:
	rm -rf $(VENV) .ci-venv .pytest_cache .ruff_cache .hypothesis .import_linter_cache
