# Every target sets up what it needs; after the first time everything works offline.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
COMPILE := $(BIN)/uv pip compile --quiet --no-config --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header

.DEFAULT_GOAL := help
.PHONY: help setup demo test check fix agents bench crash example docs lock clean

help: ## show the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## (.*)/  make \1\t\2/' | expand -t 18

setup: $(STAMP) ## make .venv with the project and the development tools

$(STAMP): requirements/dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "teams-runtime needs Python 3.11 or newer, found " + sys.version.split()[0] + "; name one with: make PYTHON=/path/to/python3.11")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "no virtual environment could be made: on Debian, apt-get install python3-venv" >&2; exit 2; }
	@echo "setting up .venv (once) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --no-index -e .
	@touch $@

demo: setup ## a whole team fixes a real defect, offline, in under a minute
	@$(BIN)/teams-runtime demo

test: setup ## every test
	$(BIN)/python -m pytest -n auto

check: setup ## style, types, layers, limits
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m unittest teams_runtime.tests.test_layers teams_runtime.tests.test_limits
	$(BIN)/python -m compileall -q teams_runtime
	git diff --check

fix: setup ## mend what the tools can mend by themselves
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

agents: $(VENV)/.agents ## add the real agent clients and API libraries to .venv, so that their tests run (about 1 GB)

$(VENV)/.agents: $(STAMP) requirements/agents.lock
	@echo "adding the agent clients to .venv (once) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/agents.lock
	@touch $@

bench: setup ## speed and memory, as ratios within one run
	$(BIN)/python -m benchmarks

crash: setup ## a crash at every byte of every write of the record store, and hundreds of real kills
	TEAMS_RUNTIME_CRASH=full $(BIN)/python -m unittest teams_runtime.tests.test_store_crash teams_runtime.tests.test_store_concurrency

example: setup ## the team mends a public package that was broken on purpose (downloads its sources)
	$(BIN)/python -m examples.public_package

docs: setup ## run every example in the docs and check their links
	$(BIN)/python -m pytest teams_runtime/tests/test_docs.py

lock: setup ## resolve the files of requirements/ anew (needs the package index)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(COMPILE) --extra codex --extra claude --extra acp --extra api pyproject.toml -o requirements/agents.lock
	$(COMPILE) --extra dev -c requirements/agents.lock pyproject.toml -o requirements/dev.lock

clean: ## remove what the targets made
	rm -rf $(VENV) teams-runtime-demo .mypy_cache .ruff_cache .pytest_cache .hypothesis
