# Works with GNU make 3.81, which is what macOS ships.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Stamps: each is newer than all that went into it, so what did not change is not done again.
ENV := .venv/.ready
BOOK := _build/.ready

.DEFAULT_GOAL := help
.PHONY: help setup system lint quick quick-tests test fuzz portable prove mutants figures book serve wheel bench clean clean-all

help: ## explain the targets (this text)
	@echo "Lab Transformer: build a Transformer block by block."
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo "  PYTHON=python3.12 chooses an interpreter, ARGS=\"-k mask\" selects tests, ARGS=3 a week."

setup: $(ENV) ## make the environment in .venv

$(ENV): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Lab Transformer needs Python 3.11 or newer: name one with make PYTHON=/path/to/python3.")'
	@echo "Making the environment in .venv; the first time takes some minutes."
	@$(BIN)/python -c "" 2>/dev/null || $(PYTHON) -m venv --clear .venv
	@# torch first: what follows must find it installed and ask for no other build of it.
	@$(PIP) "$$(grep '^torch==' requirements.txt)"
	@$(PIP) -r requirements.txt
	@$(PIP) --no-deps -e .
	@touch $@

system: ## find or install what pip cannot bring: bubblewrap, Chromium
	@sh tools/system.sh

lint: $(ENV) ## ruff and mypy
	@$(BIN)/python -m ruff check .
	@$(BIN)/python -m ruff format --check .
	@$(BIN)/python -m mypy

# One torch thread for each test process: more would only compete for the same cores (THREADS=2 tries
# whether all holds with two). There is one process more than cores, because tests wait a good deal: for
# browsers, sandboxes, deadlines. Files come in their order: the long ones are at the front, so that no
# core idles at the end.
PROCESSES = $$($(BIN)/python -c "import os; print(min(8, (os.cpu_count() or 1) + 1))")
THREADS = 1
PYTEST = OMP_NUM_THREADS=$(THREADS) $(BIN)/python -m pytest -n $(PROCESSES) --dist loadfile --no-loadscope-reorder

quick: $(ENV) ## lint, and the tests that need no bank, sandbox or browser
	@$(MAKE) --no-print-directory -j2 lint quick-tests

quick-tests: $(ENV)
	@$(PYTEST) -n auto -q tests/plain tests/exercises $(ARGS)

# The notebooks' stored outputs are tested too, unless ARGS selects tests: a notebook only makes sense as a
# whole.
test: $(ENV) system ## run every check
	@$(MAKE) --no-print-directory -j2 lint book
	@$(PYTEST) $(if $(ARGS),$(ARGS),--nbval --nbval-sanitize-with notebooks/nbval.cfg tests notebooks)

fuzz: $(ENV) ## throw 100,000 broken and hostile things at what reads submissions
	@LAB_FUZZ=$(or $(ARGS),6500) $(PYTEST) -q tests/plain/fuzz

portable: $(ENV) ## run the notebooks as on other machines, and with other seeds
	@$(BIN)/python tools/portable.py $(ARGS)

prove: $(ENV) ## try every right and wrong solution of the bank
	@OMP_NUM_THREADS=1 $(BIN)/lab prove $(ARGS)

mutants: $(ENV) ## change the solutions in small ways: do the tests notice?
	@OMP_NUM_THREADS=1 $(BIN)/lab mutants $(ARGS)

# Both run, whatever the first one finds.
figures: $(ENV) ## all figures of the checks: prove and mutants
	@code=0; \
	$(MAKE) --no-print-directory prove || code=1; \
	$(MAKE) --no-print-directory mutants || code=1; \
	exit $$code

book: $(BOOK) ## build the book into _build/html

$(BOOK): $(ENV) _config.yml _toc.yml $(shell find book notebooks lab_transformer -type f ! -name '*.pyc' 2>/dev/null)
	@echo "Building the book."
	@# A page names the checksums of static files, so a new one means that all pages are written anew.
	@$(if $(filter book/_static/% book/vendor/% book/extra/%,$?),rm -rf _build/html)
	@# A new directive means that all pages are read anew; Sphinx does not notice by itself.
	@$(if $(filter book/_ext/%,$?),rm -rf _build/html _build/.doctrees)
	@$(BIN)/jupyter-book build --quiet -W --keep-going . >/dev/null
	@touch $@

serve: $(BOOK) ## build the book and serve it on localhost
	@$(BIN)/lab serve

wheel: $(ENV) ## build the course as one file to install, into _build/wheel
	@$(BIN)/python -c "from pathlib import Path; from lab_grader import wheel; print(wheel.build(Path('_build/wheel')))"

bench: $(ENV) ## compare with what people would use instead
	@for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

clean: ## remove what was built, keep the environment
	rm -rf _build .mypy_cache .pytest_cache .ruff_cache .hypothesis

clean-all: clean ## remove the environment too
	rm -rf .venv *.egg-info
