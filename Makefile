# Every target passes ARGS="…" on to the program it runs. `make` alone lists the targets.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

# The first one on the PATH that is new enough; `make setup PYTHON=…` takes another.
PYTHON ?= $(shell for each in python3.11 python3.12 python3.13 python3; do \
	$$each -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$each && break; done)

# Of the tests; each starts a Kafka of its own. Tests of one file stay in one process: what they share is started once.
PROCESSES ?= 2

BIN := .venv/bin
INSTALLED := .venv/.installed
PREPARED := .venv/.prepared
PROMETHEUS := $(CURDIR)/.venv/prometheus/usr/bin

.PHONY: help setup browser prometheus demo test containers chaos bench lint format clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

setup: $(PREPARED) ## install into .venv; fetch Kafka and prepare the model

demo: setup ## run the whole pipeline on a dozen questions
	@$(BIN)/tallystream demo $(ARGS)

test: setup browser prometheus ## lint, check types and run all tests (ARGS go to pytest)
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --check
	@$(BIN)/pyright
	@PATH="$(PROMETHEUS):$$PATH" $(BIN)/pytest $(if $(findstring -n,$(ARGS)),,-n $(PROCESSES) --dist loadfile --no-loadscope-reorder) $(ARGS)

# The page's tests look at it in a real browser, those of the rules ask Prometheus; where there is none, they are skipped.
browser:
	@command -v chromium chromium-browser google-chrome >/dev/null || ! command -v apt-get >/dev/null || [ "$$(id -u)" != 0 ] || { \
		echo "installing chromium, which the page is tested in …"; \
		apt-get install -qq -y chromium >/dev/null 2>&1 || { apt-get update -qq && apt-get install -qq -y chromium; } >/dev/null 2>&1 || \
		echo "it can not be installed: the page's tests are skipped"; }

# Unpacked, not installed: its package would start a service.
prometheus: $(INSTALLED) browser
	@command -v prometheus >/dev/null || [ -x $(PROMETHEUS)/prometheus ] || ! command -v apt-get >/dev/null || { \
		echo "fetching Prometheus, which the rules are tested with …"; \
		mkdir -p .venv/prometheus && cd .venv/prometheus && \
		{ apt-get download -qq prometheus || { apt-get update -qq && apt-get download -qq prometheus; }; } >/dev/null 2>&1 && \
		dpkg-deb -x prometheus_*.deb . || \
		echo "it can not be fetched: its tests are skipped"; }

containers: setup ## build the images, and kill every container while tasks run (needs Docker and 10 GB)
	@TALLYSTREAM_TEST_CONTAINERS=1 $(BIN)/pytest -s tests/containers $(ARGS)

chaos: setup ## kill everything 200 times and audit the topics (--kills N --seed S --json FILE …)
	@$(BIN)/tallystream chaos $(ARGS)

bench: setup ## measure PART, e.g. ARGS="pipeline --json FILE" (Celery: pip install -e '.[bench]')
	@$(BIN)/tallystream bench $(ARGS)

lint: $(INSTALLED) ## lint and check types (ARGS go to ruff check)
	@$(BIN)/ruff check $(ARGS)
	@$(BIN)/ruff format --check
	@$(BIN)/pyright

format: $(INSTALLED) ## sort imports and format (ARGS go to ruff format)
	@$(BIN)/ruff check --select I --fix --quiet
	@$(BIN)/ruff format $(ARGS)

clean: ## remove .venv and what the tools leave here; jars and models stay in their cache
	@rm -rf .venv .pytest_cache .ruff_cache .hypothesis build dist
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(INSTALLED): pyproject.toml constraints.txt
	@[ -n "$(PYTHON)" ] || { echo "error: Python 3.11 or later is needed and not on the PATH: install it (Debian: apt-get install python3 python3-venv)" >&2; exit 1; }
	@[ -x $(BIN)/pip ] || $(PYTHON) -m venv .venv >/dev/null || { rm -rf .venv; echo "error: Python's venv module is needed: install it (Debian: apt-get install python3-venv)" >&2; exit 1; }
	@echo "installing into .venv (PyTorch is large: the first time takes minutes) …"
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[worker,dev]'
	@touch $@

$(PREPARED): $(INSTALLED) ops/kafka/pom.xml pipeline/kafka/prepare.py pipeline/engine/default_model.py
	@$(BIN)/python -m pipeline.kafka.prepare
	@$(BIN)/python -m pipeline.engine.model
	@touch $@
