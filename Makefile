# `make` alone lists what there is, from the comments beside the targets.
.DEFAULT_GOAL := help
SHELL := /bin/sh
.PHONY: help install install-export compile run test check lint prepared test-fast test-slow test-crash test-fuzz test-export-kills test-fresh sanitized bench docs format clean java

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell command -v python3.11 || command -v python3)
# Arguments for `headrace run` (make run ARGS="--port 10921") or pytest (make check ARGS="-k route").
ARGS ?=

PACKAGES := $(wildcard appliance broker headrace ipc nameserver pyspark_commitlog spark_exporter store web)
# A module is hot when a .pxd lies beside it (setup.py).
TYPES := $(wildcard $(foreach package,$(PACKAGES),$(package)/*.pxd $(package)/*/*.pxd $(package)/*/*/*.pxd))
HOT := $(wildcard $(TYPES:.pxd=.py))

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "make %-17s %s\n", $$1, $$2 }'

install: $(VENV)/installed build/compiled  ## virtual environment, packages, compiled hot modules: leaves .venv/bin/headrace

install-export: $(VENV)/exporting build/compiled  ## the exporter with Spark, Iceberg and Delta too (pyspark: 456 MB, fetched once)

run: $(VENV)/installed build/compiled  ## an appliance in ./data, in the foreground (ARGS="--port 10921 ...")
	@exec $(BIN)/headrace run $(ARGS)

# Lint keeps one core busy, and what is left to prepare the other.
test: $(VENV)/testing  ## everything a change must pass, nothing skipped: lint, all kinds of tests, Java interop
	@$(MAKE) --no-print-directory -j 2 --output-sync=target lint prepared
	@$(MAKE) --no-print-directory -j 1 test-fast
	@$(MAKE) --no-print-directory -j 1 test-slow

check: $(VENV)/testing  ## lint and the fast tests: what to run all day
	@$(MAKE) --no-print-directory -j 2 --output-sync=target lint prepared
	@$(MAKE) --no-print-directory -j 1 test-fast

test-crash: $(VENV)/bytecode build/compiled java  ## the crash tests in full length
	HEADRACE_CRASH_ROUNDS=$${HEADRACE_CRASH_ROUNDS:-full} $(BIN)/python -m pytest -m crash $(ARGS)

test-fuzz: $(VENV)/bytecode build/compiled build/sanitized/built  ## 20 million mutated inputs (HEADRACE_FUZZ_INPUTS), with sanitizers in the hot modules
	HEADRACE_FUZZ_INPUTS=$${HEADRACE_FUZZ_INPUTS:-20000000} $(BIN)/python -m pytest -o timeout=0 tests/fuzz $(ARGS)

test-export-kills: $(VENV)/bytecode build/compiled  ## exports killed at a hundred random instants
	HEADRACE_CRASH_ROUNDS=$${HEADRACE_CRASH_ROUNDS:-full} $(BIN)/python -m pytest tests/crash/test_export_kills.py tests/crash/test_export_object_storage_kills.py \
	    tests/crash/test_spark_export_kills.py $(ARGS)

test-fresh:  ## the README's two commands on fresh Debian machines (as root; FORM=short: the fast tests only)
	packaging/fresh/fresh $(or $(FORM),full) $(or $(SUITES),bookworm trixie testing)

bench: $(VENV)/bytecode build/compiled java  ## side by side with Apache's broker; writes bench/RESULTS.md
	$(BIN)/python bench/compare.py $(ARGS)

docs: $(VENV)/installed  ## write the pages that are made from the code (each package's manual)
	@for manual in $(subst /,.,$(basename $(wildcard */manual.py */manual/[a-z]*.py))); do echo $$manual; $(BIN)/python -m $$manual || exit 1; done

format: $(VENV)/testing  ## format, and mend what ruff can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:  ## remove what was built: environment, compiled modules, caches
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find $(PACKAGES) tests bench -name __pycache__ -prune -exec rm -rf {} +
	find $(PACKAGES) -name '*.so' -delete

# ---- parts of the above

lint: $(VENV)/testing
	$(BIN)/ruff check .
	$(BIN)/ruff format --quiet --check .
	$(BIN)/mypy $(PACKAGES) bench tests/support tests/interop
	$(BIN)/lint-imports

prepared: $(VENV)/bytecode build/compiled java

# Both halves of `make test`. A skipped test is a failure here.
test-fast: $(VENV)/bytecode build/compiled java
	$(BIN)/python -m pytest -n 2 -m "not slow and not interop and not crash" --ignore=tests/interop --ignore=tests/crash --nothing-skipped $(ARGS)

# They wait more than they compute: three workers keep two cores busy. Only files that have such tests are loaded. They go to workers in this order, long ones first: by the number of their tests they would come last.
test-slow: $(VENV)/bytecode build/compiled java
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder -m "slow or interop or crash" --nothing-skipped \
	    tests/crash tests/interop $$(grep -rlE --include='test_*.py' --exclude-dir=crash --exclude-dir=interop 'mark\.(slow|interop|crash)' tests | sort) $(ARGS)

compile: build/compiled  ## compile the hot modules that have changed, where they lie

build/compiled: $(HOT) $(TYPES) setup.py | $(VENV)/installed
	@mkdir -p build
	@if ! command -v cc >/dev/null; then \
	    echo "no C compiler (cc): the hot modules run uncompiled, several times slower"; \
	elif [ -n "$(HOT)" ]; then \
	    echo "compiling $(if $(filter setup.py,$?),$(HOT),$(filter %.py %.pxd,$?))"; $(if $(filter setup.py,$?),rm -rf build/cython;) \
	    $(BIN)/python setup.py -q build_ext --inplace --parallel 2 >build/compile.log 2>&1 || { cat build/compile.log; exit 1; }; \
	fi
	@command -v cc >/dev/null && touch $@ || true

sanitized: build/sanitized/built  ## compile the hot modules once more, apart, with checked indexes and the compiler's sanitizers

build/sanitized/built: $(HOT) $(TYPES) setup.py | $(VENV)/installed
	@mkdir -p build
	@echo "compiling the hot modules with sanitizers"
	@$(BIN)/python setup.py -q build_ext --sanitize --parallel 2 >build/sanitize.log 2>&1 || { cat build/sanitize.log; exit 1; }
	@touch $@

# The virtual environment. Python, its headers and a compiler come from Debian's packages where they are missing.
$(BIN)/python:
	@if [ -z "$(PYTHON)" ] || ! $(PYTHON) -c 'import ensurepip, venv, sys; assert sys.version_info >= (3, 11)' 2>/dev/null; \
	    then packaging/need "the virtual environment" python3 python3-venv; fi
	@if ! command -v cc >/dev/null || ! $$(command -v python3.11 || command -v python3) -c 'import os, sysconfig, sys; \
	    sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))'; \
	    then packaging/need "compiling the hot modules" gcc libc6-dev python3-dev || echo "going on without a compiler"; fi
	@echo "making $(VENV)"
	@$$(command -v python3.11 || command -v python3) -m venv $(VENV)

$(VENV)/installed: pyproject.toml setup.py | $(BIN)/python
	@echo "installing the packages that pyproject.toml names"
	@$(BIN)/python -m pip install -q --disable-pip-version-check "pip>=25.1" # the first that knows --group
	@$(BIN)/python -m pip install -q --disable-pip-version-check --group build
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-build-isolation --editable .
	@touch $@

# pip keeps what it has built of pyspark, so that the next environment gets it from there.
$(VENV)/exporting: pyproject.toml | $(VENV)/installed
	@$(BIN)/python -m pip show -q pyspark 2>/dev/null || \
	    echo "installing the exporter's packages; pyspark is 456 MB to fetch and a minute to build, unless pip's cache has it"
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-compile --no-build-isolation --editable '.[export,iceberg,delta,object-store]'
	@touch $@

$(VENV)/testing: pyproject.toml | $(VENV)/installed $(VENV)/exporting
	@echo "installing what the tests need"
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-compile --group test
	@touch $@

# What pip would have done as it went: half a minute of one core, for packages of 1.5 GB. Some hold what Python does not compile.
$(VENV)/bytecode: $(VENV)/testing
	@$(BIN)/python -m compileall -q $(VENV)/lib >/dev/null || true
	@touch $@

# Java, Maven and a C compiler, for the official client, Apache's servers and the load generator.
java:
	@command -v java >/dev/null && command -v javac >/dev/null && command -v mvn >/dev/null && command -v cc >/dev/null || \
	    packaging/need "the comparison with Apache's own servers and client" default-jdk-headless maven gcc libc6-dev
