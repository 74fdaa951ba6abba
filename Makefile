# Traube. `make help` lists what there is.
PYTHON ?= python3
# Where pip finds torch. On Linux the default build is the CUDA one; for a CPU-only machine pass, say,
# TORCH_ARGS="--index-url <index of the CPU builds>".
TORCH_ARGS ?=
TORCH := torch==2.13.0

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
ALL := $(VENV)/.all
# uv leaves modules uncompiled: without this, each process would compile all that it imports
unexport PYTHONDONTWRITEBYTECODE
INSTALL := deploy/install.py --torch "$(TORCH_ARGS) $(TORCH)"

.DEFAULT_GOAL := help
.PHONY: help setup setup-scale demo dev test test-all pytest lint docs check-wheel check-versions format lock catalogue bench bench-gpu

help:  ## list the commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

setup: $(READY)  ## install what the platform needs into .venv, and make the home folder and checkpoints/

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Traube needs Python 3.11 or newer: make PYTHON=python3.12 ...")'
	@$(PYTHON) $(INSTALL) requirements.lock
	@# as pip does, and uv does not: compile what a first run would wait for. The models' library is imported late there:
	@# it goes on being compiled while tasks are read, and yields to whatever else is at work
	@nice $(BIN)/python -c "import gc; gc.disable(); import sentence_transformers" > /dev/null 2>&1 &
	@$(BIN)/traube init
	@touch $@

setup-scale: $(ALL)  ## install everything: Ray, S3, Postgres, and what the tests need

$(ALL): $(READY) requirements.all.lock
	@$(PYTHON) $(INSTALL) requirements.all.lock
	@touch $@

demo: $(READY)  ## run the main job, offline, to a leaderboard
	$(BIN)/traube run
	$(BIN)/traube leaderboard

dev: $(READY)  ## Dagster on 127.0.0.1:3000 and MLflow on 127.0.0.1:5000; Ctrl-C stops both
	$(BIN)/traube dev

test: $(ALL)  ## lint, types, and every capability once on a small case; no network and no GPU
	$(MAKE) --no-print-directory -j 2 lint pytest MARKED="and not slow and not e2e and not cluster"

test-all: $(ALL)  ## that, and what is slow, starts real servers or a browser, or needs Ray, S3 or Postgres
	$(MAKE) --no-print-directory -j 2 lint pytest WORKERS=4

# Each worker imports all libraries: a fourth costs more than it fills, unless others wait for servers
WORKERS := 3
pytest: $(ALL)
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not gpu $(MARKED)"

SOURCES := traube assets deploy operations resources sensors definitions.py
# Code, settings and texts whose words are the field's
STYLED := $(SOURCES) benchmarks tests params.yaml cards docs README.md CONTRIBUTING.md SECURITY.md
lint: $(ALL)  ## ruff (lint and format), docstrings, mypy, and the layers of the architecture (import-linter)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/numpydoc lint $$(find $(SOURCES) -name '*.py')
	$(BIN)/python deploy/check_public.py
	$(BIN)/python deploy/check_style.py $(STYLED)
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(ALL)  ## the documentation as a site, into docs/_build/html; offline, and any warning is an error
	$(BIN)/python -m sphinx -b html -n -W --keep-going -q docs docs/_build/html

check-versions: $(READY)  ## resolve each extra, and all, at the highest and the lowest versions, on each Python
	$(BIN)/python deploy/check_versions.py

check-wheel: $(READY)  ## build wheel and sdist, and use the wheel in empty environments, at the highest and the lowest versions
	$(BIN)/python deploy/check_wheel.py --torch "$(TORCH_ARGS) $(TORCH)"

format: $(ALL)  ## let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

MTEB := mteb-core==2.26.24  # mteb without torch
catalogue:  ## write the models' catalog from the metadata of mteb; ARGS="--results FILE": its published scores, too
	test -x $(VENV)-catalogue/bin/python || $(PYTHON) -m venv $(VENV)-catalogue
	$(VENV)-catalogue/bin/python -m pip install -q $(MTEB)
	$(VENV)-catalogue/bin/python deploy/make_catalogue.py $(ARGS)

bench: $(READY)  ## the benchmarks, side by side with their peers
	$(BIN)/python benchmarks/vs_mteb.py

bench-gpu: $(READY)  ## all that is claimed of a GPU, in 40 minutes at most; ARGS=--tiny: in little, on the CPU
	$(BIN)/python benchmarks/gpu_day.py $(ARGS)

COMPILE = $(VENV)-lock/bin/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header \
	  --override requirements.overrides.txt --excludes requirements.excludes.txt --extra platform --extra checkout
lock:  ## resolve the dependencies again into requirements.lock (the platform) and requirements.all.lock (everything)
	test -x $(VENV)-lock/bin/uv || { $(PYTHON) -m venv $(VENV)-lock && $(VENV)-lock/bin/python -m pip install -q uv; }
	@# everything first: parts of Dagster pin one another, and appear one after the other
	$(COMPILE) --upgrade --extra dev --extra docs --extra scale-dev -o requirements.all.lock pyproject.toml
	$(COMPILE) --upgrade -c requirements.all.lock -o requirements.lock pyproject.toml
