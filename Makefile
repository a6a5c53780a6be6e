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
EXTRAS := $(VENV)/extras
READERS := $(VENV)/readers
ICEBERG := $(VENV)/iceberg
# uv takes a fifth of pip's time. It does not read pip's settings, so pip follows where uv fails, as behind a mirror.
# $(call install,ENVIRONMENT,ARGUMENTS)
install = { $(BIN)/uv pip install --quiet --compile-bytecode --require-hashes --python $(1)/bin/python $(2) \
	|| $(1)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes $(2); }
# 'make test WORKERS=8' suits more cores; 'make test PYTEST_OPTIONS=--durations=10' prints the slowest tests
WORKERS ?= 2
PYTEST_OPTIONS ?=
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder \
	$(PYTEST_OPTIONS)
# the marks of the tiers; a test with both marks belongs to the night
TEST := "not integration and not long"
INTEGRATION := "integration and not long"
LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-strip-extras --no-emit-index-url \
	--no-header --upgrade

.PHONY: demo test test-integration test-long coverage extras notebook docs ui lint lock clean help

help: ## what each target does
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-9s %s\n", $$1, $$2}'

demo: $(READY) ## the main job on the built-in sample world: Dagster, Parquet, DuckDB, two queries
	@$(BIN)/holderlake demo

test: $(TOOLS) ## the tests that a change must pass, in three minutes
	@$(PYTEST) -m $(TEST)

test-integration: $(EXTRAS) ## the other tests that a change should pass, in five minutes more
	@$(PYTEST) -m $(INTEGRATION)

test-long: $(EXTRAS) $(READERS)/ready $(ICEBERG)/ready ## the tests of a night: Spark, large scale, load, repeated kills, real data
	@HOLDERLAKE_ALL_EXAMPLES=1 $(PYTEST) -m long -rs

coverage: $(EXTRAS) ## line and branch coverage of the tests of a change
	@rm -f .coverage .coverage.*
	@for tier in $(TEST) $(INTEGRATION); do PYTHONDONTWRITEBYTECODE= $(BIN)/python -m coverage run -m pytest \
		--numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder -m "$$tier" $(PYTEST_OPTIONS) || exit 1; done
	@$(BIN)/python -m coverage combine --quiet
	@$(BIN)/python -m coverage report --skip-covered --sort=miss | tail -n 40

extras: $(EXTRAS) $(READERS)/ready $(ICEBERG)/ready ## all optional parts: Spark, object storage, notebooks, Dagster in PostgreSQL, dbt, and what their tests need (1.3 GB)
	@$(call install,$(VENV),-r locks/requirements-cluster.lock)

notebook: $(READY) ## the analyst's notebook as a page in the browser, over your data (200 MB more)
	@$(call install,$(VENV),-r locks/requirements-notebook.lock)
	@$(BIN)/marimo run notebooks/warehouse.py

docs: $(TOOLS) ## the docs as a site: open site/index.html; a link that leads nowhere fails
	@$(BIN)/python -m sphinx --builder html --jobs 1 --nitpicky --fail-on-warning --quiet $(DOCS) $(SITE)

ui: $(READY) ## Dagster's web UI (http://127.0.0.1:3000/asset-groups)
	@$(BIN)/holderlake ui --open

lint: $(TOOLS) ## format, lint and types
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

lock: $(TOOLS) ## makes the locks again from pyproject.toml
	@$(LOCK) --group installer --output-file locks/requirements-uv.lock
	@$(LOCK) --group run --extra sample --extra plots --extra postgres pyproject.toml \
		--output-file locks/requirements.lock
	@$(LOCK) --group dev --constraint locks/requirements.lock --output-file locks/requirements-dev.lock
	@$(LOCK) --group extras --constraint locks/requirements.lock --constraint locks/requirements-dev.lock \
		--output-file locks/requirements-extras.lock
	@$(LOCK) --group cluster --constraint locks/requirements.lock --constraint locks/requirements-dev.lock \
		--constraint locks/requirements-extras.lock --output-file locks/requirements-cluster.lock
	@$(LOCK) --group notebook --constraint locks/requirements.lock --constraint locks/requirements-dev.lock \
		--constraint locks/requirements-extras.lock --output-file locks/requirements-notebook.lock
	@$(LOCK) --group production --constraint locks/requirements.lock --constraint locks/requirements-dev.lock \
		--constraint locks/requirements-extras.lock --constraint locks/requirements-notebook.lock \
		--output-file locks/requirements-production.lock
	@$(LOCK) --group readers --output-file locks/requirements-readers.lock
	@$(LOCK) --group iceberg --output-file locks/requirements-iceberg.lock

clean: ## removes the environment and everything that runs produced
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache
	rm -rf site
	find data -mindepth 1 -maxdepth 1 ! -name README.md -exec rm -rf {} +

$(READY): locks/requirements.lock locks/requirements-uv.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "Holderlake needs Python 3.11, 3.12 or 3.13; install one, or name it: make PYTHON=/path/to/python3.12" >&2; exit 1; }
	@echo "Building the environment in $(VENV) with $(PYTHON) (once; about a minute)"
	@$(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r locks/requirements-uv.lock
	@$(call install,$(VENV),-r locks/requirements.lock)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m holderlake.engine.warm # compiles loops once, or the first map would wait for it
	@touch $@

$(TOOLS): $(READY) locks/requirements-dev.lock
	@echo "Adding what tests, lint and docs take (once; half a minute)"
	@$(call install,$(VENV),-r locks/requirements-dev.lock)
	@touch $@

$(EXTRAS): $(TOOLS) locks/requirements-extras.lock locks/requirements-notebook.lock locks/requirements-production.lock
	@echo "Adding the optional parts that tests take (once; half a minute)"
	@$(call install,$(VENV),-r locks/requirements-extras.lock -r locks/requirements-notebook.lock -r locks/requirements-production.lock)
	@touch $@

# Separate environments: dbt and mypy need different versions of pathspec, and the Iceberg extension another DuckDB
$(READERS)/ready $(ICEBERG)/ready: $(VENV)/%/ready: locks/requirements-%.lock $(READY)
	@$(PYTHON) -m venv --clear $(@D)
	@$(call install,$(@D),-r $<)
	@touch $@
