# `make` without a target lists the targets, from the comments beside them.
.DEFAULT_GOAL := help
SHELL := /bin/sh
.PHONY: help install install-export compile run test check lint prepared test-fast test-slow test-crash test-fuzz test-export-kills test-fresh sanitized bench screenshots docs format clean java clients browser tracer deb rpm wheels test-packages

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell command -v python3.11 || command -v python3)
# Arguments for `headrace run` (make run ARGS="--port 10921") or pytest (make check ARGS="-k route").
ARGS ?=

PACKAGES := $(wildcard appliance broker headrace ipc nameserver pyspark_commitlog spark_exporter store web)
# A module with a .pxd beside it is hot (setup.py).
TYPES := $(wildcard $(foreach package,$(PACKAGES),$(package)/*.pxd $(package)/*/*.pxd $(package)/*/*/*.pxd))
HOT := $(wildcard $(TYPES:.pxd=.py))

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "make %-17s %s\n", $$1, $$2 }'

install: $(VENV)/installed build/compiled  ## set up .venv with packages and compiled hot modules: .venv/bin/headrace

install-export: $(VENV)/exporting build/compiled  ## also install the exporter with Spark, Iceberg and Delta (pyspark: 456 MB, downloaded once)

run: $(VENV)/installed build/compiled  ## run an appliance in the foreground with data in ./data (ARGS="--port 10921 ...")
	@exec $(BIN)/headrace run $(ARGS)

# Lint uses one core, the remaining preparation the other.
test: $(VENV)/testing  ## everything a change must pass, nothing skipped: lint, all tests, Java interop
	@$(MAKE) --no-print-directory -j 2 --output-sync=target lint prepared
	@$(MAKE) --no-print-directory -j 1 test-fast
	@$(MAKE) --no-print-directory -j 1 test-slow

check: $(VENV)/testing  ## lint and the fast tests
	@$(MAKE) --no-print-directory -j 2 --output-sync=target lint prepared
	@$(MAKE) --no-print-directory -j 1 test-fast

test-crash: $(VENV)/bytecode build/compiled java  ## the full crash tests
	HEADRACE_CRASH_ROUNDS=$${HEADRACE_CRASH_ROUNDS:-full} $(BIN)/python -m pytest -m crash $(ARGS)

test-fuzz: $(VENV)/bytecode build/compiled build/sanitized/built  ## 20 million mutated inputs (HEADRACE_FUZZ_INPUTS), with sanitizers in the hot modules
	HEADRACE_FUZZ_INPUTS=$${HEADRACE_FUZZ_INPUTS:-20000000} $(BIN)/python -m pytest -o timeout=0 tests/fuzz $(ARGS)

test-export-kills: $(VENV)/bytecode build/compiled  ## kill exports at a hundred random instants
	HEADRACE_CRASH_ROUNDS=$${HEADRACE_CRASH_ROUNDS:-full} $(BIN)/python -m pytest tests/crash/test_export_kills.py tests/crash/test_export_object_storage_kills.py \
	    tests/crash/test_spark_export_kills.py $(ARGS)

test-fresh:  ## run the README's commands on minimal Debian machines (as root; FORM=short: fast tests only)
	packaging/fresh/test-machines $(or $(FORM),full) $(or $(SUITES),bookworm trixie testing)

deb:  ## build Debian packages in dist/, for Debian 12 and 13 (as root; SUITES="trixie")
	packaging/build deb dist $(or $(SUITES),bookworm trixie)

rpm:  ## build RPM packages in dist/, for Python 3.11 and glibc 2.34 or newer (as root)
	packaging/build rpm dist bookworm

test-packages: $(VENV)/installed java  ## try the packages in dist/ on machines with systemd: install, crash, upgrade, purge; build them again: equal bytes (as root)
	packaging/deb/test-packages dist $(or $(SUITES),bookworm trixie)
	packaging/rpm/test-packages dist
	packaging/test-reproducible deb dist $(or $(SUITES),bookworm trixie)
	packaging/test-reproducible rpm dist bookworm

wheels: $(VENV)/installed  ## build the wheels of the SDK and of the appliance in dist/
	SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)} $(BIN)/python packaging/build_wheels.py dist

bench: $(VENV)/bytecode build/compiled java  ## compare with Apache's broker; appends to bench/RESULTS.md, fails if a goal is missed (25 minutes; QUICK=1: five)
	@# As in an installed package: without byte code a start takes 0.15 s longer, and memory is 6 MiB larger.
	@$(BIN)/python -m compileall -q $(PACKAGES)
	$(BIN)/python bench/compare.py $(if $(QUICK),--quick) $(ARGS)

screenshots: $(VENV)/testing build/compiled browser  ## take pictures of the console in docs/console (PICTURES=all: every theme, language and width, in build/console)
	@[ -e /usr/share/fonts/truetype/wqy ] || packaging/ensure-packages "pictures of Chinese pages" fonts-wqy-microhei
	PYTHONPATH=tests $(BIN)/python -m support.console_pictures $(if $(filter all,$(PICTURES)),build/console all,docs/console)

docs: $(VENV)/installed  ## generate the reference pages from the code
	@for manual in $(subst /,.,$(basename $(wildcard */manual.py */manual/[a-z]*.py))); do echo $$manual; $(BIN)/python -m $$manual || exit 1; done

format: $(VENV)/testing  ## format the code and apply ruff's fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:  ## remove build products: environment, compiled modules, caches
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find $(PACKAGES) tests bench -name __pycache__ -prune -exec rm -rf {} +
	find $(PACKAGES) -name '*.so' -delete

# ---- parts of the above

lint: $(VENV)/testing
	$(BIN)/ruff check .
	$(BIN)/ruff format --quiet --check .
	$(BIN)/mypy $(PACKAGES) bench tests/support tests/interop
	$(BIN)/lint-imports

prepared: $(VENV)/bytecode build/compiled java browser

# The two halves of `make test`. A skipped test is a failure here.
test-fast: $(VENV)/bytecode build/compiled java
	$(BIN)/python -m pytest -n 2 -m "not slow and not interop and not crash" --ignore=tests/interop --ignore=tests/crash --nothing-skipped $(ARGS)

# These tests mostly wait: three workers keep two cores busy. Only files with such tests are loaded, in this order, long ones first: ordered by their number of tests they would run last.
test-slow: $(VENV)/bytecode build/compiled java clients browser tracer
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder -m "slow or interop or crash" --nothing-skipped \
	    tests/crash tests/interop $$(grep -rlE --include='test_*.py' --exclude-dir=crash --exclude-dir=interop --exclude-dir=flood 'mark\.(slow|interop|crash)' tests | sort) $(ARGS)
	@# Alone: these compare latencies, which other tests on the same cores would change.
	$(BIN)/python -m pytest -m slow --nothing-skipped tests/flood $(ARGS)

compile: build/compiled  ## compile changed hot modules in place

build/compiled: $(HOT) $(TYPES) setup.py | $(VENV)/installed
	@mkdir -p build
	@if ! command -v cc >/dev/null; then \
	    echo "no C compiler (cc) found: hot modules run interpreted, several times slower"; \
	elif [ -n "$(HOT)" ]; then \
	    echo "compiling $(if $(filter setup.py,$?),$(HOT),$(filter %.py %.pxd,$?))"; $(if $(filter setup.py,$?),rm -rf build/cython;) \
	    $(BIN)/python setup.py -q build_ext --inplace --parallel 2 >build/compile.log 2>&1 || { cat build/compile.log; exit 1; }; \
	fi
	@command -v cc >/dev/null && touch $@ || true

sanitized: build/sanitized/built  ## compile the hot modules separately with bounds checks and sanitizers

build/sanitized/built: $(HOT) $(TYPES) setup.py | $(VENV)/installed
	@mkdir -p build
	@echo "compiling the hot modules with sanitizers"
	@$(BIN)/python setup.py -q build_ext --sanitize --parallel 2 >build/sanitize.log 2>&1 || { cat build/sanitize.log; exit 1; }
	@touch $@

# The virtual environment. Missing Python, headers and compiler are installed from Debian packages.
$(BIN)/python:
	@if [ -z "$(PYTHON)" ] || ! $(PYTHON) -c 'import ensurepip, venv, sys; assert sys.version_info >= (3, 11)' 2>/dev/null; \
	    then packaging/ensure-packages "the virtual environment" python3 python3-venv; fi
	@if ! command -v cc >/dev/null || ! $$(command -v python3.11 || command -v python3) -c 'import os, sysconfig, sys; \
	    sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))'; \
	    then packaging/ensure-packages "compiling the hot modules" gcc libc6-dev python3-dev || echo "continuing without a compiler"; fi
	@echo "creating $(VENV)"
	@$$(command -v python3.11 || command -v python3) -m venv $(VENV)

$(VENV)/installed: pyproject.toml packaging/sdk/pyproject.toml setup.py | $(BIN)/python
	@echo "installing the packages listed in pyproject.toml"
	@$(BIN)/python -m pip install -q --disable-pip-version-check "pip>=25.1" # the first version with --group
	@$(BIN)/python -m pip install -q --disable-pip-version-check --group build
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-build-isolation --editable packaging/sdk --editable .
	@touch $@

# pip caches the built pyspark wheel for the next environment.
$(VENV)/exporting: pyproject.toml | $(VENV)/installed
	@$(BIN)/python -m pip show -q pyspark 2>/dev/null || \
	    echo "installing the exporter's packages; pyspark takes a 456 MB download and a minute to build unless it is in pip's cache"
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-compile --no-build-isolation --editable '.[export,iceberg,delta,object-store]'
	@touch $@

$(VENV)/testing: pyproject.toml | $(VENV)/installed $(VENV)/exporting
	@echo "installing the test packages"
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-compile --group test
	@touch $@

# Byte-compiles the packages (1.5 GB, half a minute of one core), which pip was told to skip. Some files do not compile.
$(VENV)/bytecode: $(VENV)/testing
	@$(BIN)/python -m compileall -q $(VENV)/lib >/dev/null || true
	@touch $@

# Chromium, in which tests/browser looks at the console.
browser:
	@command -v chromium >/dev/null || packaging/ensure-packages "the console's tests in a browser" chromium

# Java, Maven and a C compiler for the official client, Apache's servers and the load generator.
java:
	@command -v java >/dev/null && command -v javac >/dev/null && command -v mvn >/dev/null && command -v cc >/dev/null || \
	    packaging/ensure-packages "the comparison with Apache's own servers and client" default-jdk-headless maven gcc libc6-dev

# strace and valgrind, with which tests count the system calls and instructions of the hot paths.
tracer:
	@command -v strace >/dev/null && command -v valgrind >/dev/null || \
	    packaging/ensure-packages "the tests that count system calls and instructions" strace valgrind

# The clients in Go and Node; also fetches what else interop tests need from a network.
clients: $(VENV)/installed java
	@command -v go >/dev/null && command -v node >/dev/null && command -v npm >/dev/null || \
	    packaging/ensure-packages "the tests with clients in Go and Node" golang-go nodejs npm
	@PYTHONPATH=tests $(BIN)/python -m support.other_clients
