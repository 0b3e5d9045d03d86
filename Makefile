# Everything runs in an environment that is made on first use and renewed when pyproject.toml or setup.py changes.
#   PYTHON=python3.12   the interpreter that makes it: 3.11 to 3.13, or 3.10 with a Triton before 3.9
#   VENV=PATH           an environment of yours instead, e.g. VENV=$VIRTUAL_ENV
#   JOBS=2              processes that run tests, or fuzz
#   SEED=1              what fuzzing draws from
#   TRITON=3.9.0        the Triton in it
PYTHON ?= python3
VENV ?= .venv
JOBS ?= 2
SEED ?= 1
TRITON ?= 3.9.0
EXTRAS ?= test,lint

bin := $(VENV)/bin
stamp := $(VENV)/.triton-linear
docs_stamp := $(VENV)/.triton-linear-docs
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DELETE_ON_ERROR:
.PHONY: help environment demo check test matrix bench fuzz lint format docs wheel clean

help:
	@echo "make demo    compile the example kernels for cuda:80, cuda:90 and hip:gfx942 and show every conversion"
	@echo "make check   run the tests for daily work, in two minutes: laws, encodings, planners, proofs, passes"
	@echo "make test    run the test suite; the last line counts the tests"
	@echo "make matrix  run the tests of what Triton decides on the releases before $(TRITON), and print a table"
	@echo "make lint    check style and types: ruff, mypy --strict"
	@echo "make format  lay the code out as 'make lint' wants it"
	@echo "make fuzz    draw other examples of properties, and verify 20,000 random conversions for six targets"
	@echo "make bench   measure compile time with and without the plugin; with a GPU, run the bit-for-bit check"
	@echo "make docs    build the documents as a site in build/site; a link that leads nowhere is an error"
	@echo "make wheel   build the source distribution and the wheel in build/dist, and check them with twine"
	@echo "make clean   remove build/ (the environment, $(VENV), stays)"

$(bin)/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10 + ("$(TRITON)" == "3.9.0")) <= sys.version_info[:2] <= (3, 13))' || \
		{ echo "Triton $(TRITON) and $(PYTHON) do not go together; name a Python from 3.11 to 3.13 with PYTHON=..." >&2; \
		exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV) && $(PYTHON) -m venv --without-pip $(VENV) && \
		$(PYTHON) -m pip --python $(VENV)/bin/python install -q pip; } || \
		{ rm -rf $(VENV); echo "$(PYTHON) makes no environment: install its venv or pip package" >&2; exit 1; }

$(stamp): pyproject.toml setup.py | $(bin)/python
	@echo "setting up $(VENV)"
	@$(bin)/python -m pip install -q -e '.[$(EXTRAS)]' triton==$(TRITON)
	@touch $@

environment: $(stamp)

# What Triton 3.9 does where the variable is unset, without the warning that says so.
demo: $(stamp)
	@TRITON_DEFAULT_FP_FUSION=$${TRITON_DEFAULT_FP_FUSION-1} $(bin)/python -m triton_linear.tools.demo

check: $(stamp)
	@$(bin)/python test/run.py --check --jobs $(JOBS)

test: $(stamp)
	@$(bin)/python test/run.py --jobs $(JOBS)

matrix:
	@$(PYTHON) test/matrix.py --jobs $(JOBS)

bench: $(stamp)
	@$(bin)/python -m bench.compile_time
	@$(bin)/python bench/gpu_check.py --if-present

fuzz: $(stamp)
	@$(bin)/python -m pytest -n $(JOBS) -m hypothesis --hypothesis-profile=fresh
	@$(bin)/python -m bench.fuzz --count 20000 --target all --seed $(SEED) --jobs $(JOBS) --failures build/fuzz

lint: $(stamp)
	@$(bin)/ruff check .
	@$(bin)/ruff format --check .
	@$(bin)/mypy --cache-dir build/mypy -p triton_linear
	@$(bin)/mypy --cache-dir build/mypy -p bench.fuzz

format: $(stamp)
	@$(bin)/ruff check --fix-only .
	@$(bin)/ruff format .

$(docs_stamp): $(stamp)
	@$(bin)/python -m pip install -q -e '.[docs]' triton==$(TRITON)
	@touch $@

# The theme announces on each run that it will not move to MkDocs 2; docs/builders/dependencies.md says it once. --quiet would
# keep warnings from being errors.
docs: $(docs_stamp)
	@PATH="$(abspath $(bin)):$$PATH" NO_MKDOCS_2_WARNING=1 $(bin)/mkdocs build
	@echo "build/site/index.html"

wheel: $(stamp)
	@rm -rf build/dist
	@$(bin)/python -m build --outdir build/dist .
	@$(bin)/python -m twine check --strict build/dist/*

clean:
	rm -rf build
