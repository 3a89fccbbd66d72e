# What a newcomer types. Needs: make, the package registries, and uv or a Python >= 3.11 with venv.

SHELL := /bin/sh
.SHELLFLAGS := -euc
.ONESHELL:
.DELETE_ON_ERROR:
.PHONY: setup demo test check lock clean

VENV := .venv
BIN := $(VENV)/bin
PROJECTS := $(wildcard packages/*/pyproject.toml)
EDITABLE := $(patsubst %/pyproject.toml,-e %,$(PROJECTS))

# `make setup PYTHON=python3.13` picks the interpreter; a name asked for has a stamp of its own, so asking
# for another one rebuilds the environment.
PYTHON ?=
JOBS ?= 0
READY := $(VENV)/.ready$(if $(PYTHON),-$(subst /,_,$(PYTHON)))

setup: $(READY)

$(READY): requirements.lock $(PROJECTS)
	@fail() { echo "make setup: $$1" >&2; exit 1; }
	# Prints the interpreter behind a name (a virtual environment's is its base); fails if it is too old.
	base_of() {
	  "$$1" -c 'import sys; assert sys.version_info >= (3, 11); print(sys._base_executable)' 2>/dev/null
	}
	has_venv() { "$$1" -c 'import ensurepip, venv' 2>/dev/null; }
	if [ -n "$(PYTHON)" ] || ! base_of $(BIN)/python >/dev/null; then
	  python=
	  for name in $(or $(PYTHON),python3.13 python3.12 python3.11 python3 python); do
	    base=$$(base_of "$$name") || continue
	    python=$$base
	    if has_venv "$$base"; then break; fi
	  done
	  if [ -n "$(PYTHON)" ] && [ -z "$$python" ]; then
	    fail "PYTHON=$(PYTHON) does not start or is older than 3.11; name a Python >= 3.11"
	  fi
	  rm -rf $(VENV)
	  if command -v uv >/dev/null; then
	    uv venv --quiet --python "$${python:->=3.11}" $(VENV) ||
	      fail "uv finds no Python >= 3.11; install one or name it: make setup PYTHON=/path/to/python"
	  elif [ -z "$$python" ]; then
	    found=$$(python3 --version 2>/dev/null || echo missing)
	    fail "no Python >= 3.11 (python3 is $$found); install one with venv, or uv, or name it: make setup PYTHON=/path/to/python"
	  elif ! has_venv "$$python"; then
	    fail "$$python has no venv; install it (Debian, Ubuntu: the package python3-venv), or install uv"
	  else
	    "$$python" -m venv $(VENV)
	  fi
	fi
	uv=$$(command -v uv || command -v $(BIN)/uv || true)
	if [ -n "$$uv" ]; then
	  "$$uv" pip sync --quiet --python $(BIN)/python --require-hashes requirements.lock &&
	  "$$uv" pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation $(EDITABLE)
	else
	  pip="$(BIN)/python -m pip --quiet --disable-pip-version-check"
	  $$pip install --require-hashes -r requirements.lock &&
	  $$pip install --no-deps --no-build-isolation $(EDITABLE)
	fi || fail "the packages could not be installed (reason above); are the package registries in reach?"
	touch $@
	echo "make setup: $$($(BIN)/python --version) in $(VENV), packages as in requirements.lock"

demo: $(READY)
	@$(BIN)/crashpoint demo

# The quick folders come first (testpaths in pyproject.toml). JOBS=2 takes two files at a time; more
# options in PYTEST_ARGS.
test: $(READY)
	@$(BIN)/pytest -n $(JOBS) --dist loadfile --durations=10 $(PYTEST_ARGS)

# Each check runs whatever the others say; the lines at the end tell which failed.
check: $(READY)
	@summary=
	failed=0
	run() {
	  echo "== $$*"
	  if "$(BIN)/$$@"; then verdict=ok; else verdict=FAILED; failed=1; fi
	  summary="$$summary$$(printf '%-7s%s' "$$verdict" "$$*")
	"
	}
	run ruff check .
	run ruff format --check .
	run mypy
	# Its cache keeps old answers when a module appears or goes.
	run lint-imports --no-logo --no-cache
	run python scripts/check_figures.py
	run python scripts/check_notebook.py
	run python scripts/draw_machines.py --check
	printf '\n%s' "$$summary"
	exit $$failed

# Keeps the versions already locked unless LOCK_ARGS=--upgrade says otherwise. Wheels that lie about on
# this machine must not decide what is locked, hence no find-links.
lock: $(READY)
	@env -u UV_FIND_LINKS -u PIP_FIND_LINKS $(BIN)/uv pip compile --quiet --universal --generate-hashes \
	  --python-version 3.11 --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
	  --all-extras $(LOCK_ARGS) --output-file requirements.lock $(PROJECTS) requirements-dev.in

# Leaves evidence/ and out/ alone: what was measured is not rubbish.
clean:
	@rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist
	find packages scripts benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
