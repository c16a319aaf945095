PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(BIN)/python -m pip install --quiet
RUN_READY := $(VENV)/.run-ready
TEST_READY := $(VENV)/.test-ready
BENCH_READY := $(VENV)/.bench-ready
CODE := src tests benchmarks examples
DEMO := .demo

.PHONY: demo test format lint types imports tests docs bench clean

demo: export PATH := $(CURDIR)/$(BIN):$(PATH)
demo: $(RUN_READY)
	@rm -rf $(DEMO) && cp -R examples/fix-tests $(DEMO)
	@echo 'A project whose tests fail:  $$ python3 -m unittest'
	@cd $(DEMO) && ! python3 -B -m unittest
	@echo && echo 'Its owner looks at what it would run, and trusts it:  $$ tenter hooks trust'
	@cd $(DEMO) && tenter hooks trust --yes
	@echo && echo 'An agent repairs it, on hooks:  $$ tenter run fix "make the tests pass" --steps'
	@cd $(DEMO) && tenter run fix "make the tests pass" --steps
	@echo && echo 'What the hook log-tools wrote:  $$ cat tool-calls.log'
	@cat $(DEMO)/tool-calls.log
	@echo && echo 'Look closer:  $$ cd $(DEMO) && $(CURDIR)/$(BIN)/tenter hooks list   (or hooks log, runs list, runs show RUN)'

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

# Both workers get one hash seed, so that they collect the tests in the same order.
tests: $(TEST_READY)
	PYTHONHASHSEED=0 $(BIN)/pytest -m 'not timed' -n 2 --dist loadfile
	$(BIN)/pytest -m timed

docs: $(TEST_READY)
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/generate_acceptance.py

bench: $(BENCH_READY)
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

$(BENCH_READY): $(TEST_READY)
	$(PIP) --editable '.[bench]'
	touch $@
