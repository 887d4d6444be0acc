# Every target works alone on a fresh clone: those that need the environment build .venv from requirements.lock first.

# The first Python from 3.10 to 3.13 that really starts and can make an environment (a pyenv shim may exist and do neither).
ifndef PYTHON
PYTHON := $(shell for candidate in python3.12 python3.13 python3.11 python3.10 python3; do \
	"$$candidate" -c 'import sys, venv, ensurepip; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' >/dev/null 2>&1 \
	&& { echo "$$candidate"; break; }; done)
endif

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.complete
# More arguments for pytest, for example: make test PYTEST_ARGS="-k ports -x"
PYTEST_ARGS ?=
# Processes of pytest-xdist, one more than there are cores, since runs also wait: make test WORKERS=2
WORKERS ?= $(shell echo $$(($$(nproc) + 1)))
# A process that has nothing left takes over tests of another; until then neighbours, which share much, stay together.
DIST := --dist=worksteal
# The scenarios for simulated GPUs, for example: make simulated SIMULATED=scenarios/test_training.py
SIMULATED ?= scenarios/
# More arguments for the benchmarks, for example: make bench BENCH_ARGS=--json
BENCH_ARGS ?=

# Where `make versions` has its environments, and more arguments for it: make versions VERSIONS_ARGS="--only 'upstream/*'"
VERSIONS ?= $(HOME)/lockstep-versions
VERSIONS_ARGS ?=

# With it each of the hundreds of processes of a suite would compile anew all that it imports, and each process of
# pytest rewrite every assertion.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help venv scenarios simulated test bench check docs site dist versions lock clean

help: ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /\1\t/' | expand -t 12

venv: $(STAMP) ## build .venv from requirements.lock

$(STAMP): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "No Python from 3.10 to 3.13 with venv found; name one: make venv PYTHON=/path/to/python" >&2; exit 2; }
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --only-binary :all: --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@

scenarios: $(STAMP) ## what must hold under every strategy and fault (the main job)
	$(BIN)/python -m pytest scenarios/ -n $(WORKERS) $(DIST) $(PYTEST_ARGS)

simulated: $(STAMP) ## the scenarios on simulated GPUs, which are built on first use
	$(BIN)/python -m pytest $(SIMULATED) --hardware=gpu-simulated -n $(WORKERS) $(DIST) $(PYTEST_ARGS)

test: $(STAMP) ## the tests of simulator/ and harness/ themselves
	$(BIN)/python -m pytest tests/ -n $(WORKERS) $(DIST) $(PYTEST_ARGS)

bench: $(STAMP) ## speed and cost, next to a peer
	$(BIN)/python -m benchmarks $(BENCH_ARGS)

check: $(STAMP) ## lint, format, types, and the rules for prose
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tools/prose.py

docs: $(STAMP) ## run every example in README and docs/
	$(BIN)/python -m pytest tests/test_docs.py --profile=full $(PYTEST_ARGS)

versions: $(STAMP) ## what holds with TensorFlow 2.16 to 2.21, in environments of their own below VERSIONS (hours, 2 GB each)
	$(BIN)/python -m pip show --quiet uv || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/python tools/versions.py --at $(VERSIONS) --page $(VERSIONS_ARGS)

site: $(STAMP) ## docs/ as a site, in build/site; its generator is installed first, from requirements-docs.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --only-binary :all: --require-hashes -r requirements-docs.lock
	$(BIN)/python tools/build_site.py build/site

dist: $(STAMP) ## wheel and sdist of HEAD in dist/, built twice and checked; what checks is installed first, from requirements-release.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --only-binary :all: --require-hashes -r requirements-release.lock
	rm -rf dist
	$(BIN)/python tools/release.py dist

lock: ## resolve the locks again, for Python 3.10 to 3.13
	$(PYTHON) -m venv --clear .lock-venv
	.lock-venv/bin/python -m pip install --quiet --disable-pip-version-check uv
	.lock-venv/bin/uv pip compile pyproject.toml --universal --python-version 3.10 --extra tf-keras \
		--extra notebook --extra scenarios --extra dev --generate-hashes \
		--no-header --no-emit-index-url --quiet --output-file requirements.lock $(LOCK_ARGS)
	for extra in docs release; do \
		sed -n "/^$$extra = \[/,/^\]/s/^ *\"\(.*\)\",.*/\1/p" pyproject.toml | .lock-venv/bin/uv pip compile - --universal \
			--python-version 3.10 --constraint requirements.lock --generate-hashes \
			--no-header --no-emit-index-url --quiet --output-file requirements-$$extra.lock $(LOCK_ARGS) || exit 1; \
	done
	rm -rf .lock-venv

clean: ## remove everything built here
	rm -rf $(VENV) .lock-venv build dist *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
