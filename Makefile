PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(BIN)/python -m pip install --quiet
RUN_READY := $(VENV)/.run-ready
TEST_READY := $(VENV)/.test-ready
CODE := src tests benchmarks examples

.PHONY: demo test format lint types imports tests docs bench clean

demo: $(RUN_READY)
	rm -rf .demo && cp -R examples/fix-tests .demo
	cd .demo && ../$(BIN)/tenter run fix "make the tests pass"
	cd .demo && ../$(BIN)/tenter hooks log

test: lint types imports tests

format: $(TEST_READY)
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix $(CODE)

lint: $(TEST_READY)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)

types: $(TEST_READY)
	$(BIN)/pyright

imports: $(TEST_READY)
	$(BIN)/lint-imports

tests: $(TEST_READY)
	$(BIN)/pytest

docs: $(TEST_READY)
	$(BIN)/python docs/generate.py

bench: $(TEST_READY)
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV)

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit("tenter needs Python 3.11 or later; this is " + sys.version if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(RUN_READY): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable .
	touch $@

$(TEST_READY): $(RUN_READY)
	$(PIP) --editable '.[test]'
	touch $@
