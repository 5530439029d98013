# Everything runs in .venv, which is made and kept up to date on the way.
# A machine needs Python 3.11 or newer and make; Spark also needs Java 17.

PYTHON ?= python3
BIN := .venv/bin

# Two installs into one environment at the same time would meet.
.NOTPARALLEL:
.PHONY: help demo test soak lint bench bench-full wheel docs lock clean

# Kernels are compiled ahead, on all cores: an edit compiles again what it touches. For all machines with AVX2
# where this is one: what is tested is what a wheel carries.
SOURCES := $(shell find src -name '*.py')
WARM := $(BIN)/tocsin warm

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: .venv/warm-demo ## a year of flights through thousands of standing queries, and a picture of it
	$(BIN)/python -m demo

# Two at a time: some machines have no more cores, and every one of them compiles the kernels it needs.
# Without the compiler, nothing is shared between tests: whoever is done takes some of what the other has left.
test: .venv/warm ## all tests; those of the kernels once more without the compiler
	$(BIN)/pytest --numprocesses 2 --dist loadfile
	NUMBA_DISABLE_JIT=1 $(BIN)/pytest --numprocesses 2 --dist worksteal tests/arrays tests/indexes tests/kernels tests/planning \
		tests/papers --ignore=tests/papers/network

soak: .venv/warm ## a job on Spark through twenty kills
	$(BIN)/pytest -m soak tests/pipeline

lint: .venv/with-dev ## style, types, import layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Compiled for this machine: what AVX-512 or another instruction set gives counts.
bench bench-full: export TOCSIN_NATIVE = 1

bench: .venv/with-bench ## measure everything at 100,000 subscriptions; write docs/benchmarks.md
	$(BIN)/python -m benchmarks --quick
	$(BIN)/python -m benchmarks --report

bench-full: .venv/with-bench ## the same at a million subscriptions and more; curves go on where they were stopped
	$(BIN)/python -m benchmarks --resume
	$(BIN)/python -m benchmarks --report

wheel: .venv/with-dev ## a wheel in dist/ with compiled kernels, for this Python on machines with AVX2
	rm -rf build/kernels
	folder=$(CURDIR)/build/kernels/$$($(BIN)/python -m tocsin.arrays.shipped_kernels) && \
		TOCSIN_KERNEL_CACHE=$$folder $(WARM) --portable && \
		TOCSIN_COMPILED_KERNELS=$$folder $(BIN)/pip wheel --no-deps --wheel-dir dist .

docs: .venv/with-docs ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

lock: .venv/bin/python ## resolve constraints.txt anew from pyproject.toml
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --all-extras --upgrade \
		--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" --output-file constraints.txt

clean: ## remove the environment and everything built
	rm -rf .venv site demo/out build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests demo benchmarks -name __pycache__ -prune -exec rm -rf {} +

.venv/warm: $(SOURCES) | .venv/with-dev
	$(WARM) --portable || $(WARM)
	@touch $@

.venv/warm-demo: $(SOURCES) demo/job.toml | .venv/with-demo
	$(WARM) --for demo/job.toml --portable || $(WARM) --for demo/job.toml
	@touch $@

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("Tocsin needs Python 3.11 or newer" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv

# One stamp an extra: installed, and as pyproject.toml and constraints.txt say.
.venv/with-%: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[$*]'
	@touch $@
