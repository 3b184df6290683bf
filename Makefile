# The one list of verbs. `make help` prints it.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PACKAGES := $(addprefix packages/orbiter-,core models memory context trace tasks mcp sandbox eval a2a client server train cli)
LOCAL := contracts wrapper operator triggers $(PACKAGES)
STAMP := $(VENV)/.installed
# Where it is set, each run compiles every test and every library anew: half a minute of computing.
unexport PYTHONDONTWRITEBYTECODE

-include cluster/Makefile.inc
-include images/Makefile.inc
-include helm/Makefile.inc
-include release/Makefile.inc
-include tests/Makefile.inc

.PHONY: help dev wheels lock check lint style format types imports test-unit clean

help: ## Print this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sort -u | awk -F ':.*## ' '{printf "  make %-18s %s\n", $$1, $$2}'

dev: $(STAMP) ## Create .venv with everything pinned in requirements.lock

# Read by Pythons of any age, so it is written for the oldest. An environment that is made by halves,
# or of a Python that is too old, would fail later and less clearly: it goes.
CHOOSE := choose another one with: make dev PYTHON=python3.12
NEW_ENOUGH := import sys; v = sys.version_info; v >= (3, 11) or sys.exit("error: %s is Python \
  %d.%d.%d, Orbiter needs 3.11 or newer; $(CHOOSE)" % ((sys.argv[1],) + tuple(v[:3])))

$(STAMP): requirements.lock $(addsuffix /pyproject.toml,$(LOCAL))
	@$(BIN)/python -c '$(NEW_ENOUGH)' . 2> /dev/null || rm -rf $(VENV)
	@test -x $(BIN)/python || command -v $(PYTHON) > /dev/null \
	  || { echo "error: there is no $(PYTHON) on PATH; $(CHOOSE)" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -c '$(NEW_ENOUGH)' $(PYTHON)
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }
	@test -x $(BIN)/uv || $(BIN)/pip install --quiet --disable-pip-version-check --require-hashes \
	  -r <(sed -n '/^uv==/,/^    # via/p' requirements.lock)
	@$(BIN)/uv pip sync --quiet --python $(BIN)/python --require-hashes requirements.lock
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation $(addprefix -e ./,$(LOCAL))
	@touch $@

# Without isolation: the pinned build backend is in .venv, so nothing is fetched.
DIST ?= dist
wheels: dev ## Build a wheel of every package into dist/, to install them elsewhere
	@mkdir -p $(DIST) && rm -f $(DIST)/orbiter_*.whl $(DIST)/worker_wrapper-*.whl
	@$(foreach part,$(LOCAL),$(BIN)/uv build --quiet --offline --no-build-isolation \
	  --python $(BIN)/python --wheel --out-dir $(DIST) $(part) &&) ls $(DIST)/*.whl

lock: ## Pin all dependencies anew: requirements.lock and the images' locks
	@$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header --python-version 3.11 \
	  $(addprefix --no-emit-package ,orbiter-contracts orbiter-operator $(notdir $(PACKAGES))) \
	  --group dev $(addsuffix /pyproject.toml,$(LOCAL)) -o requirements.lock
	@$(MAKE) -s lock-images

# The long one first; what each has to say is printed when it ends, in one piece, and all are run to
# their end, so that one round names everything there is to mend.
check: dev ## The fast lane before every commit: lint and unit tests side by side (about a minute)
	@$(MAKE) -s -k -j --output-sync=target test-unit types style imports

lint: style types imports ## ruff, format check, mypy --strict, import rules

style: dev
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

format: dev ## Format the code
	@$(BIN)/ruff check --fix --exit-zero . && $(BIN)/ruff format .

# The packages share the namespace `orbiter`, whose one __init__.py is core's: mypy finds the other
# parts through mypy_path in pyproject.toml, users' mypy through each package's py.typed. One run
# for everything: third parties' types are read once, and what did not change comes from one cache.
TYPED := $(addsuffix /src,$(LOCAL)) $(addprefix cluster/,localcluster install.py servers.py demo.py \
  demo_chat.py) images/orbiter_images release/orbiter_release tests/model_server \
  $(addprefix examples/,chat_sessions.py telegram_bot.py slack_app.py)

types: dev
	@$(BIN)/mypy $(TYPED)

# The import linter reads a package from one directory; ours share `orbiter` over many. So it is shown
# them as links in one tree, as an installation has them.
MERGED := $(VENV)/imports

imports: dev
	@rm -rf $(MERGED) && mkdir $(MERGED) && for package in $(PACKAGES); do \
	  cp -rs $(CURDIR)/$$package/src/orbiter $(MERGED)/; done
	@PYTHONPATH=$(MERGED) $(BIN)/lint-imports

test-unit: dev ## The tests that need neither Redis nor a cluster (a minute)
	@$(BIN)/pytest -q -n 2 --dist loadfile -m "not integration and not cluster and not e2e and not upgrade"

clean: ## Remove the environment and caches (not the cluster: make cluster-down)
	@rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache
