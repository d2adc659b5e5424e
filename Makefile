# The front door. Every target sets up what it needs by itself: a virtual environment in .venv with
# the project in it and, where the machine has no Java 17 or later, a Java.
#
#   make demo      the main job on TPC-H data
#   make test      the tests, on all cores; make test ARGS="-k joins -x" passes options to pytest
#   make lint      format, lint, types and import layers
#   make format    rewrites files as lint wants them
#   make bench     all benchmarks, about an hour; make bench ARGS="--quick" the smallest of each
#   make clean     removes what these targets made
#
# PYTHON=python3.12 chooses the Python that .venv is made from.

SHELL := /bin/sh
VENV := .venv
STAMP := $(VENV)/.installed
ARGS ?=

.PHONY: demo test lint format bench install clean

demo: install
	@tools/run python -m tpch demo $(ARGS)

test: install
	@tools/run python -m pytest -n auto --maxprocesses 4 --dist worksteal $(ARGS)

lint: install
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

format: install
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

bench: install
	@tools/run python -m benchmarks $(ARGS)

install: $(STAMP)

$(STAMP): pyproject.toml tools/install
	@PYTHON="$(PYTHON)" tools/install $(VENV)
	@touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	rm -rf .hypothesis .benchmarks
	find . -name __pycache__ -prune -exec rm -rf {} +
