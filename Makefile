# `make demo` and `make test` set everything up from a fresh clone: a .venv of their own, no other step.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test lint install browser bench verify-all clean

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[run,reference,report,bench,dev]'
	touch $(STAMP)

install: $(STAMP)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: $(STAMP) lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest

demo: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m reference_trainers.demo

bench: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.convert_speed
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.tree_cost
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.generated_against_expert
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.accelerate_cost

# What the tests of the review page are driven in (Debian's packages; elsewhere put chromium and chromedriver on the path).
browser:
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null \
	|| { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium chromium-driver; }

# Each of these tests trains on up to four processes: what fails beside another one (time-outs on a busy machine) has to
# pass alone.
verify-all: $(STAMP) browser
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m long -n 2 --dist worksteal \
	|| OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m long -n 0 --last-failed --last-failed-no-failures none

clean:
	rm -rf $(VENV) build *.egg-info
