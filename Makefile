# Every target works from nothing: it makes .venv, installs with the tested versions, runs.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
CORE   := $(VENV)/.core
DEV    := $(VENV)/.dev
BROWSER := $(VENV)/.browser
PAIRS  := $(patsubst %,data/phrasebook/translate/%.tsv,train valid test)
# A grammar makes no mistakes, so there is no noise that dropout would have to keep the model from learning.
NO_DROPOUT := model.encoder.dropout=0.0 model.decoder.dropout=0.0
PIP    := -m pip install --quiet --disable-pip-version-check
# Every file that pip takes is in locks/ with its hash. Torch is not: its builds differ, and each has a size of gigabytes
# and libraries of its own; its version is that of constraints.txt.
LOCKED := $(PIP) --require-hashes --no-deps --requirement
TOOLS  := .venv-tools/.done
COMPILE := .venv-tools/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate
DEV_EXTRAS := --extra dev --extra plot --extra serve --extra studio --extra track --extra tune --extra vision --extra hf --extra spm --extra onnx
TESTED := --constraint constraints.txt pyproject.toml
# Without what comes with a build of torch, and what is for Python in a browser.
KEEP   := awk 'BEGIN { print "\# Made by make lock." } \
	/^[^ ]/ { drop = /^(torch|triton|nvidia-[a-z0-9-]+|cuda-[a-z0-9-]+|httpx2-jsfetch)==/ } !drop'
write_lock = $(COMPILE) $(2) > build/lock.txt && $(KEEP) build/lock.txt > locks/$(1).txt
# The packages of other locks as options, so that this one leaves them out.
less   = $$(sed -n 's/^\([^ =]*\)==.*/--no-emit-package \1/p' $(1))

.DEFAULT_GOAL := help
.PHONY: help install demo test test-all test-browser screenshots check lint-deploy format lock audit sbom clean

help:                   ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(CORE): pyproject.toml constraints.txt locks/pip.txt locks/core.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "weft needs Python 3.11 or newer; try: make PYTHON=python3.11"; exit 2; }
	@echo "Installing weft into $(VENV) (about a minute, once) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python $(LOCKED) locks/pip.txt
	@$(BIN)/python $(LOCKED) locks/core.txt
	@$(BIN)/python $(PIP) --constraint constraints.txt torch
	@$(BIN)/python $(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

$(DEV): $(CORE) locks/serve.txt locks/dev.txt
	@$(BIN)/python $(LOCKED) locks/serve.txt
	@$(BIN)/python $(LOCKED) locks/dev.txt
	@$(BIN)/python -m pip check > /dev/null || { $(BIN)/python -m pip check; exit 1; }
	@touch $@

$(TOOLS): locks/pip.txt locks/tools.txt
	@test -x .venv-tools/bin/python || $(PYTHON) -m venv .venv-tools
	@.venv-tools/bin/python $(LOCKED) locks/pip.txt && .venv-tools/bin/python $(LOCKED) locks/tools.txt \
		|| { echo "no package index could be reached for what this needs (locks/tools.txt)"; exit 3; }
	@touch $@

install: $(CORE)        ## weft in .venv

demo: $(CORE)           ## train a translator here, score it, translate with it
	@rm -rf runs/demo
	@$(BIN)/weft data make phrasebook --out data/phrasebook
	@$(BIN)/weft train translate $(PAIRS) --out runs/demo $(NO_DROPOUT)
	@$(BIN)/python examples/demo.py runs/demo

# Each worker has one half of the tests, so that fixtures of a file are made once, and takes from the other when it is done.
PYTEST := $(BIN)/pytest -n 2 --dist worksteal
# Tests start Python many times, which without bytecode compiles weft each time.
test test-all: export PYTHONDONTWRITEBYTECODE :=

test: $(DEV)            ## the fast suite
	@$(PYTEST) -m 'not slow'

test-all: $(DEV)        ## every test, the slow ones too
	@$(PYTEST)

$(BROWSER): $(DEV) locks/browser.txt
	@$(BIN)/python $(LOCKED) locks/browser.txt
	@touch $@

# The page needs chromium, which no package index has.
.PHONY: chromium
chromium:
	@command -v chromium > /dev/null || command -v chromium-browser > /dev/null || command -v google-chrome > /dev/null || { test "$$(id -u)" = 0 && \
		apt-get update -qq && apt-get install -qq -y chromium; } || { echo "chromium is missing: sudo apt-get install chromium"; exit 3; }

test-browser: $(BROWSER) chromium ## the studio's page, in a browser
	@$(BIN)/pytest tests/browser

screenshots: $(BROWSER) chromium ## pictures of every view of the studio, for the docs: build/screenshots
	@$(BIN)/python tools/screenshots.py build/screenshots

check: $(DEV)           ## format, lint, types, structure
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/pytest tests/structure

UNIT := build/weft-serve.service
# Of 100; systemd-analyze gives 11.
UNIT_EXPOSURE := 15

lint-deploy: $(TOOLS)   ## what is in deploy/: the container image, the systemd unit, the Kubernetes example
	@.venv-tools/bin/hadolint deploy/Containerfile
	@.venv-tools/bin/yamllint --strict --config-file deploy/yamllint.yaml deploy
	@.venv-tools/bin/kubernetes-validate --quiet --strict deploy/kubernetes.yaml
	@mkdir -p build && sed 's|/opt/weft/bin/weft|/bin/true|' deploy/weft-serve.service > $(UNIT)
	@if command -v systemd-analyze > /dev/null; then systemd-analyze verify $(UNIT) && \
		systemd-analyze security --offline=yes --no-pager --threshold=$(UNIT_EXPOSURE) $(UNIT) | tail -1; \
		else echo "systemd-analyze is missing, so deploy/weft-serve.service was not checked"; fi

format: $(DEV)          ## rewrite the code in the project's format
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

lock: $(TOOLS)          ## locks/ anew from constraints.txt and pyproject.toml, with the hash of every file
	@mkdir -p build
	@$(call write_lock,pip,--group pip)
	@$(call write_lock,tools,--group tools)
	@$(call write_lock,core,$(TESTED) --group build)
	@$(call write_lock,serve,$(TESTED) --extra serve $(call less,locks/core.txt))
	@$(call write_lock,dev,$(TESTED) $(DEV_EXTRAS) $(call less,locks/core.txt locks/serve.txt))
	@$(call write_lock,bench,$(TESTED) --extra bench $(call less,locks/core.txt locks/serve.txt locks/dev.txt))
	@$(call write_lock,browser,$(TESTED) --extra browser $(call less,locks/core.txt locks/serve.txt locks/dev.txt locks/bench.txt))

audit: $(CORE) $(TOOLS) ## known vulnerabilities of what is installed; fails too where the database cannot be reached
	@.venv-tools/bin/python tools/audit.py $(BIN)/python

sbom: $(CORE) $(TOOLS)  ## what is installed, as a software bill of materials: build/sbom.json
	@mkdir -p build
	@.venv-tools/bin/cyclonedx-py environment --output-reproducible --pyproject pyproject.toml --output-file build/sbom.json $(BIN)/python
	@echo "Wrote build/sbom.json (CycloneDX)."

clean:                  ## remove what the other targets made
	rm -rf $(VENV) .venv-tools runs data .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
