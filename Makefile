# Assumes python 3.11 or newer with pip, make and git; everything else goes into .venv, at the versions in constraints.txt.

PYTHON ?= $(shell for p in python3.11 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := -m pip --disable-pip-version-check -qq install
INSTALL := $(BIN)/python $(PIP_INSTALL) -c constraints.txt
PINNED := pyproject.toml constraints.txt src/partbayes/_version.py
PYTEST_ARGS ?= -q -n auto --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help demo test lint slow bench format results constraints clean

help:  ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1~\2/p' Makefile | awk -F'~' '{ printf "%-20s %s\n", $$1, $$2 }'

demo: $(VENV)/.run  ## install what is needed and show the library at work
	@$(BIN)/partbayes demo

test: lint  ## lint, types, import rules and all tests but the slow ones
	$(BIN)/pytest $(PYTEST_ARGS)

lint: $(VENV)/.dev  ## style, types and import rules only
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports

slow: $(VENV)/.dev  ## the long statistical tests
	$(BIN)/pytest $(PYTEST_ARGS) -m slow

bench: $(VENV)/.dev  ## time one step: ours, other libraries, and the machine's limit (BENCH_ARGS="--quick --shapes 0")
	$(BIN)/python -m benchmarks $(BENCH_ARGS)

format: $(VENV)/.dev  ## mend what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

results: $(VENV)/.dev  ## write docs/results.md and the README's table anew from the lines under results/
	$(BIN)/python -m partbayes.benchmark.page docs/results.template.md results > docs/results.md.new
	mv docs/results.md.new docs/results.md
	$(BIN)/python -m partbayes.benchmark.headline README.md results/practice.jsonl > README.md.new
	mv README.md.new README.md

constraints: needs-python  ## resolve all dependencies anew and write constraints.txt
	@echo "Resolving every dependency in a throwaway environment; this takes a few minutes ..."
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && \
	$(PYTHON) -m venv "$$dir/venv" && \
	"$$dir/venv/bin/python" $(PIP_INSTALL) '.[dev,rivals]' && \
	{ echo "# Exact versions of everything that the project and its extras install. Refresh with: make constraints"; \
	  "$$dir/venv/bin/python" -m pip --disable-pip-version-check list --format=freeze \
	    --exclude partbayes --exclude pip --exclude setuptools; } > "$$dir/new" && \
	cp "$$dir/new" constraints.txt && echo "Wrote constraints.txt."

clean:  ## remove the environment, caches and build output
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: needs-python
needs-python:
	@test -n "$(PYTHON)" || { echo "No python 3.11 or newer was found; install one or say make PYTHON=/path/to/python."; exit 1; }

$(VENV)/.made: | needs-python
	@echo "Making $(VENV) with $(PYTHON) ..."
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.run: $(PINNED) | $(VENV)/.made
	@echo "Installing partbayes and its dependencies into $(VENV); the first time takes a minute or two ..."
	@$(INSTALL) -e .
	@touch $@

# Holds what .run holds too, so a demo after a test has nothing to install.
$(VENV)/.dev: $(PINNED) | $(VENV)/.made
	@echo "Installing partbayes with its test tools into $(VENV); the first time takes a minute or two ..."
	@$(INSTALL) -e '.[dev]'
	@touch $(VENV)/.run $@
