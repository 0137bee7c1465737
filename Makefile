# Every target works from nothing: it makes .venv, installs with the tested versions, runs.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
CORE   := $(VENV)/.core
DEV    := $(VENV)/.dev
PAIRS  := $(patsubst %,data/phrasebook/translate/%.tsv,train valid test)
# A grammar makes no mistakes, so there is no noise that dropout would have to keep the model from learning.
NO_DROPOUT := model.encoder.dropout=0.0 model.decoder.dropout=0.0
PIP    := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt

.DEFAULT_GOAL := help
.PHONY: help install demo test test-all check format clean

help:                   ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(CORE): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "weft needs Python 3.11 or newer; try: make PYTHON=python3.11"; exit 2; }
	@echo "Installing weft into $(VENV) (about a minute, once) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) --editable .
	@touch $@

$(DEV): $(CORE)
	@$(PIP) --editable '.[dev,plot,track,tune]'
	@touch $@

install: $(CORE)        ## weft in .venv

demo: $(CORE)           ## train a translator here, score it, translate with it
	@rm -rf runs/demo
	@$(BIN)/weft data make phrasebook --out data/phrasebook
	@$(BIN)/weft train translate $(PAIRS) --out runs/demo $(NO_DROPOUT)
	@$(BIN)/python examples/demo.py runs/demo

test: $(DEV)            ## the fast suite
	@$(BIN)/pytest -n 2 -m 'not slow'

test-all: $(DEV)        ## every test, the slow ones too
	@$(BIN)/pytest -n 2

check: $(DEV)           ## format, lint, types, structure
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/pytest tests/structure

format: $(DEV)          ## rewrite the code in the project's format
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

clean:                  ## remove what the other targets made
	rm -rf $(VENV) runs data .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
