# For a machine that has make and Python 3.11 or newer; an existing .venv is reused.
#   make demo   one training script that repeats bit for bit, and one that does not
#   make test   everything CI checks; `make test-slow` goes on with what that has only samples of
#   make test-frameworks   the newest Lightning, transformers and accelerate
#   make test-versions   the oldest and newest Python and torch that are promised, and the oldest frameworks
#   make docs   the documentation as a site, in build/site

SHELL := /bin/bash
PYTHON ?= python3
export PATH := $(CURDIR)/.venv/bin:$(PATH)

.PHONY: demo test test-slow test-frameworks test-versions docs
.NOTPARALLEL:
.DELETE_ON_ERROR:

# The second check finds what was planted in it, so it ends with 1.
demo: .venv/installed-examples
	samebits check examples/digits.py
	samebits check examples/digits_unseeded.py; test $$? -eq 1

test: .venv/installed-dev
	ruff check
	ruff format --check
	mypy
	lint-imports
	pytest -n auto --dist worksteal

# What the fast tests have a sample of: every planted fault, every example, every pair of options; and of the frameworks,
# where they are installed.
test-slow: .venv/installed-dev
	SAMEBITS_WHOLE_TORCH=1 pytest -n auto --dist worksteal -m slow
	test ! -e build/frameworks/newest/made || $(MAKE) test-frameworks FRAMEWORK_TESTS="-m slow --ignore tests/integrations/test_planted.py"

# `newest` or `oldest`: an environment in build/frameworks, which is reused as long as what it is made from stays.
FRAMEWORKS ?= newest
# `-m slow` runs the other tests of every framework, and the planted faults: half an hour.
FRAMEWORK_TESTS ?=
test-frameworks: build/frameworks/$(FRAMEWORKS)/made
	SAMEBITS_WHOLE_TORCH=1 build/frameworks/$(FRAMEWORKS)/bin/python -m pytest -n auto --dist worksteal tests/integrations \
	    --ignore tests/integrations/test_pytest.py $(FRAMEWORK_TESTS)

# What old frameworks need beside them is their own business: only what bits depend on is pinned.
build/frameworks/%/made: tests/integrations/%.txt constraints.txt pyproject.toml | .venv/bin/python
	rm -rf $(@D)
	python -m venv $(@D)
	grep -E '^(torch|numpy|pytest)==' constraints.txt > $(@D)/constraints.txt
	$(@D)/bin/python -m pip install --quiet --no-compile --editable ".[torch]" pytest pytest-xdist --requirement $< --constraint $(@D)/constraints.txt
	touch $@

# What is promised and does not change between pushes: noxfile.py says which. Some GB and half an hour.
test-versions: .venv/installed-dev
	$(MAKE) test-frameworks FRAMEWORKS=oldest FRAMEWORK_TESTS="-m 'slow or not slow' --ignore tests/integrations/test_planted.py"
	python -m pip install --quiet nox
	nox

# A warning is an error: a link that leads nowhere, a page that no list holds.
docs: .venv/installed-docs
	sphinx-build -W --keep-going -n -q -d build/site-cache docs build/site

# Installs the extra that the target's name ends with, again whenever what it was installed from has changed. Python
# compiles what is imported, not all of torch.
.venv/installed-%: pyproject.toml constraints.txt | .venv/bin/python
	python -m pip install --quiet --no-compile --editable ".[$*]" --constraint constraints.txt
	touch $@

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    printf 'error: $(PYTHON) is missing or older than Python 3.11, which the pinned versions need\n\n'; \
	    printf 'hint: name another with `make PYTHON=python3.11 $(MAKECMDGOALS)`\n'; exit 1; } >&2
	$(PYTHON) -m venv .venv
