# One entry for everything. `make help` lists the targets.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# An interpreter to use instead of the first python3.11 or later that is found.
PYTHON ?=
# Passed on to pytest, `hango up`, `hango demo` and the benchmark.
ARGS ?=
# How long `make chaos` rains.
MINUTES ?= 5

BIN := .venv/bin
STAMP := .venv/.installed
PACKAGES := hango hango_policy hango_platform hango_cli hango_approvals hango_runner hango_gateway hango_sweeper

COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
  --no-annotate $(if $(UPGRADE),--upgrade)

# $(call step,NAME,COMMAND): one line if it passes, its whole output if it does not.
define step
@printf '  %-18s' '$(1)'; start=$$SECONDS; \
if output=$$($(2) 2>&1); then \
  note=$$(grep -m1 '^SKIPPED' <<<"$$output" || true); echo "$${note:-ok} ($$((SECONDS - start)) s)"; \
else echo FAILED; printf '%s\n' "$$output"; exit 1; fi
endef

.PHONY: help
help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## (.*)/  make \1\t\2/' | expand -t 20

.PHONY: setup
setup: $(STAMP) ## Install everything into .venv (done at need by the other targets)
	@:

$(STAMP): requirements.lock pyproject.toml tools/uv.txt tools/setup.sh
	@tools/setup.sh $(PYTHON)
	@touch $@

.PHONY: demo
demo: setup ## Run the main job once: start, pause, decide, resume; prints the story
	@$(BIN)/hango demo $(ARGS)

.PHONY: up
up: setup ## Serve until interrupted; prints the inbox URL and the demo credentials
	@$(BIN)/hango up $(ARGS)

.PHONY: test
test: setup ## Run the whole test suite
	@$(BIN)/pytest $(ARGS)

.PHONY: chaos
chaos: setup ## Break everything under load for MINUTES (5), then check every promise
	@$(BIN)/python -m tests.chaos --minutes $(MINUTES) $(ARGS)

.PHONY: check
check: setup ## Run every check that needs no server: style, types, imports, proto, shape
	$(call step,format,$(BIN)/ruff format --check .)
	$(call step,lint,$(BIN)/ruff check .)
	$(call step,types,$(BIN)/mypy $(addprefix -p ,$(PACKAGES)) && $(BIN)/mypy tests bench tools)
	$(call step,imports,$(BIN)/lint-imports)
	$(call step,proto lint,$(BIN)/buf lint)
	$(call step,proto format,$(BIN)/buf format --diff --exit-code)
	$(call step,proto breaking,tools/check_breaking.sh)
	$(call step,stubs,$(BIN)/python tools/generate.py --check)
	$(call step,reference,$(BIN)/python tools/reference.py --check)
	$(call step,shape,$(BIN)/pytest tests/unit/test_shape.py)
	$(call step,model,$(BIN)/python tools/model.py quick)

.PHONY: model
model: setup ## Check the protocol's model in its large configurations: 10 to 40 minutes, 14 GB
	@$(BIN)/python tools/model.py full

.PHONY: fmt
fmt: setup ## Format the code and the proto files, and fix what can be fixed
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .
	@$(BIN)/buf format --write

.PHONY: generate
generate: setup ## Regenerate the stubs in libs/hango and the reference pages in docs/reference
	@$(BIN)/python tools/generate.py
	@$(BIN)/python tools/reference.py

.PHONY: bench
bench: setup ## Measure it; the numbers end in bench/
	@$(BIN)/python -m bench $(ARGS)

.PHONY: lock
lock: setup ## Recompile requirements.lock from pyproject.toml (UPGRADE=1 takes newer versions)
	@$(COMPILE) pyproject.toml --group dev -o requirements.lock
	@$(COMPILE) - -o tools/uv.txt <<<uv
	@echo "requirements.lock is current; run 'make setup' to install it"
