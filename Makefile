# make demo | make test     do all set-up by themselves; `make help` lists the rest
SHELL := /bin/bash
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
# The ROS 2 wheels that the tests talk to exist for Python 3.11 only; without it those tests say why they are skipped.
ROS_VENV := .venv-ros
ROS_PACKAGES := ros-rclpy ros-rmw-fastrtps-cpp ros-std-msgs ros-geometry-msgs ros-nav-msgs ros-sensor-msgs ros-diagnostic-msgs
PIP := -m pip install --quiet --disable-pip-version-check
export NUMBA_CACHE_DIR ?= $(CURDIR)/.numba-cache
# Most of the tests' time is one core's; a file's tests stay together, since they share what is costly to make.
SIDE_BY_SIDE := -n auto --maxprocesses 4 --dist loadfile

.PHONY: help
help:
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

.PHONY: demo
demo: $(VENV)/.runtime ## drive the simulated robot through a real floor plan to a goal
	@$(BIN)/onboard-hil demo $(ARGS)

.PHONY: test
test: $(VENV)/.dev $(ROS_VENV)/.ready ## run the tests
	@$(BIN)/pytest -q $(SIDE_BY_SIDE) $(ARGS)

.PHONY: test-long
test-long: $(VENV)/.dev $(ROS_VENV)/.ready ## run the tests that take minutes
	@$(BIN)/pytest -q -m long $(ARGS)

.PHONY: bench
bench: $(VENV)/.dev ## compare speeds with plain definitions in the same run
	@$(BIN)/pytest -q -s tests/benchmarks $(ARGS)

.PHONY: mutants
mutants: $(VENV)/.dev ## change the safety code line by line and count what the tests notice (goes on where it was)
	@CI=1 $(BIN)/mutmut run $(ARGS)
	@$(BIN)/mutmut export-cicd-stats && cat mutants/mutmut-cicd-stats.json
	@$(BIN)/mutmut results

.PHONY: coverage
coverage: $(VENV)/.dev $(ROS_VENV)/.ready ## run the tests and count which branches of onboard/ they take
	@$(BIN)/pytest -q $(SIDE_BY_SIDE) --cov --cov-report=term $(ARGS)

.PHONY: lint
lint: $(VENV)/.dev ## format, lint and types, changing nothing
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

.PHONY: check
check: test lint ## everything that CI runs

.PHONY: setup
setup: $(VENV)/.runtime $(VENV)/.dev ## prepare .venv

.PHONY: clean
clean: ## remove what set-up and runs have made
	rm -rf $(VENV) $(ROS_VENV) .numba-cache .mypy_cache .ruff_cache .pytest_cache .hypothesis dist out mutants .coverage*

$(VENV)/.runtime: pyproject.toml
	@bash .ci/prepare-machine
	@test -x $(BIN)/python || "$$(bash .ci/prepare-machine --python)" -m venv $(VENV)
	@echo "setup: installing onboard with its extras into $(VENV) (some minutes the first time)"
	@$(BIN)/python $(PIP) --upgrade pip
	@$(BIN)/python $(PIP) --editable '.[cpu,realsense,serial]'
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime
	@bash .ci/prepare-machine --browser
	@echo "setup: installing what the tests need"
	@$(BIN)/python $(PIP) --editable '.[cpu,realsense,serial,mesh,view,ray,bags,remote,train,dev]'
	@# types for the TensorRT driver; the package wants TensorRT itself, which only the Jetson has
	@$(BIN)/python $(PIP) --no-deps tensorrt-stubs
	@touch $@

$(ROS_VENV)/.ready: $(VENV)/.runtime
	@if python="$$(bash .ci/prepare-machine --python 3.11)"; then \
	    echo "setup: installing ROS 2 (rclpy) into $(ROS_VENV)"; \
	    test -x $(ROS_VENV)/bin/python || "$$python" -m venv $(ROS_VENV); \
	    $(ROS_VENV)/bin/python $(PIP) $(ROS_PACKAGES) && touch $@; \
	else \
	    echo "setup: no Python 3.11 here, so no ROS 2 wheels: the tests with a ROS 2 node will be skipped"; \
	    mkdir -p $(ROS_VENV) && touch $@; \
	fi
