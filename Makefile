# Every target sets up what it needs. `make help` lists them.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help venv demo test check lint types imports bench causes cluster cluster-down e2e e2e-load clean

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## (.*)/  make \1\t\2/' | expand -t 22

$(STAMP): requirements-dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: set PYTHON=python3.11"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "python3 cannot make a virtual environment: install the package python3-venv"; exit 1; }
	@$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

venv: $(STAMP) ## the virtual environment, from the lock file

demo: $(STAMP) ## a sandbox cluster, the watcher and the web page on this machine
	@$(BIN)/archiver demo

test: check ## what the README names: every check and test that needs no cluster

check: lint types imports $(STAMP) ## ruff, mypy, import contracts, unit, contract, component, web and docs tests
	@$(BIN)/pytest -q -n auto --dist loadfile

lint: $(STAMP)
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: $(STAMP)
	@$(BIN)/mypy

imports: $(STAMP)
	@$(BIN)/lint-imports --no-cache

bench: $(STAMP) ## ratios measured in one run
	@$(BIN)/python -m tests.bench

causes: $(STAMP) ## how often the diagnosis is right, beside three baselines
	@$(BIN)/python -m tests.bench.causes

cluster: $(STAMP) ## a real Kubernetes with KubeRay on this machine (root, Linux)
	@$(BIN)/python -m tests.e2e.cluster up

cluster-down: $(STAMP) ## stops it and leaves nothing behind
	@$(BIN)/python -m tests.e2e.cluster down

e2e: cluster ## real RayJobs that die on the real cluster
	@$(BIN)/pytest -q tests/e2e -m cluster

e2e-load: cluster ## 200 RayJobs at once while everything fails in turn (ARCHIVER_E2E_LOAD=40 for fewer)
	@$(BIN)/pytest -q tests/e2e/load -m load

clean: ## removes what the other targets made
	@rm -rf $(VENV) .demo test-artifacts .mypy_cache .ruff_cache
