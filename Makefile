# Each target first builds its virtual environment from the hashed locks.
PYTHON ?= $(shell for name in python3.13 python3.12 python3.11 python3; do \
	command -v $$name >/dev/null 2>&1 && $$name -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null \
	&& echo $$name && break; done)
VENV := .venv
BIN := $(VENV)/bin
DOCS := docs
SITE := site
READY := $(VENV)/ready
TOOLS := $(VENV)/tools
READERS := $(VENV)/readers
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes
# Tests wait a part of their time: three processes use two cores best. 'make test WORKERS=8' suits more cores.
WORKERS ?= 3
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder
LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-strip-extras --no-emit-index-url \
	--no-header --upgrade

.PHONY: demo test test-long extras notebook docs ui lint lock clean help

help: ## what each target does
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-9s %s\n", $$1, $$2}'

demo: $(READY) ## the main job on the built-in sample world: Dagster, Parquet, DuckDB, two queries
	@$(BIN)/holderlake demo

test: $(TOOLS) ## the test suite without its long tests
	@$(PYTEST) -m "not long"

test-long: $(TOOLS) ## the long tests: Spark, large scale, load, repeated kills, real data
	@HOLDERLAKE_ALL_EXAMPLES=1 $(PYTEST) -m long

extras: $(TOOLS) $(READERS)/ready ## all optional parts: Spark, object storage, notebooks, Dagster in PostgreSQL, dbt, and what their tests need (1.2 GB)
	@$(INSTALL) -r requirements-extras.lock -r requirements-notebook.lock -r requirements-production.lock

notebook: $(READY) ## the analyst's notebook in the browser, over your data (200 MB more)
	@$(INSTALL) -r requirements-notebook.lock
	@$(BIN)/marimo edit --skip-update-check notebooks/warehouse.py

docs: $(TOOLS) ## the docs as a site: open site/index.html; a link that leads nowhere fails
	@$(BIN)/python -m sphinx --builder html --jobs 1 --nitpicky --fail-on-warning --quiet $(DOCS) $(SITE)

ui: $(READY) ## Dagster's web UI (http://127.0.0.1:3000)
	@$(BIN)/holderlake ui

lint: $(TOOLS) ## format, lint and types
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

lock: $(TOOLS) ## makes the locks again from pyproject.toml
	@$(LOCK) --group run pyproject.toml --output-file requirements.lock
	@$(LOCK) --group dev --constraint requirements.lock --output-file requirements-dev.lock
	@$(LOCK) --group extras --constraint requirements.lock --constraint requirements-dev.lock \
		--output-file requirements-extras.lock
	@$(LOCK) --group notebook --constraint requirements.lock --constraint requirements-dev.lock \
		--constraint requirements-extras.lock --output-file requirements-notebook.lock
	@$(LOCK) --group production --constraint requirements.lock --constraint requirements-dev.lock \
		--constraint requirements-extras.lock --constraint requirements-notebook.lock \
		--output-file requirements-production.lock
	@$(LOCK) --group readers --output-file requirements-readers.lock

clean: ## removes the environment and everything that runs produced
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache
	rm -rf site
	find data -mindepth 1 -maxdepth 1 ! -name README.md -exec rm -rf {} +

$(READY): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "Holderlake needs Python 3.11, 3.12 or 3.13; install one, or name it: make PYTHON=/path/to/python3.12" >&2; exit 1; }
	@echo "Building the environment in $(VENV) with $(PYTHON) (once; about a minute)"
	@$(PYTHON) -m venv --clear $(VENV)
	@$(INSTALL) -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m holderlake.engine.warm # compiles loops once, or the first map would wait for it
	@touch $@

$(TOOLS): $(READY) requirements-dev.lock
	@echo "Adding what tests, lint and docs take (once; half a minute)"
	@$(INSTALL) -r requirements-dev.lock
	@touch $@

# A separate environment: dbt and mypy need different versions of pathspec
$(READERS)/ready: $(READY) requirements-readers.lock
	@$(PYTHON) -m venv --clear $(READERS)
	@$(READERS)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-readers.lock
	@touch $@
