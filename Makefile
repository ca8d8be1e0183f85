# Cobblestone's commands.  Each one installs what it needs first; `make help` lists them.

# Options for `cobblestone demo` (make demo ARGS=--keep) and for pytest (make test PYTEST_ARGS="-x -k credit").
ARGS ?=
PYTEST_ARGS ?=
# Options for the bench of the server, e.g. BENCH_ARGS="--database postgresql --rows one,ten".
BENCH_ARGS ?=
# Where `make clients` gets Debian's packages, when it is not where apt gets this machine's own.
MIRROR ?=
# Interpreters for `make pythons`, instead of all that are here.
PYTHONS ?=
# The interpreter for a new .venv, when it is not the first python3 >= 3.11 on PATH.
PYTHON ?=
export PYTHON

BIN := .venv/bin
QUICK := tests/unit tests/properties tests/golden
# In this order each of three workers begins with a part of its own: what compiles, what is quick, what has databases.
MOST := tests/simulations $(QUICK) tests/programs tests/conformance tests/integration
# What a client or server may do depends on who starts it: these have tests of root alone, or run as root besides.
ROOT = $(sort $(shell grep -rl 'mark\.root' tests --include='test_*.py') \
	tests/e2e/test_client_sandbox.py tests/e2e/test_client_tasks.py tests/e2e/test_client_host.py tests/e2e/test_own_client.py)
SUDO := $(if $(filter-out 0,$(shell id -u)),sudo)
# Kill a client or server again and again, --kills=N times.
KILLS := tests/e2e/test_client_killed.py tests/e2e/test_kill.py tests/e2e/test_own_client.py tests/e2e/test_several_processes.py
# Neighbours share databases, browsers and compiled code, so each worker begins with a part and takes from the others at the end.
TWO := -n 2 --dist worksteal
# Databases and disks let a worker wait, too.
THREE := -n 3 --dist worksteal
# These wait for clients most of the time, so several run side by side.
E2E := -n 4 --dist worksteal tests/e2e
# The library of browsers keeps an event loop in its thread for good, so no other tests may follow in these processes.
BROWSERS := $(TWO) tests/browser

.DEFAULT_GOAL := help
.PHONY: help demo check test test-root nightly bench docs coverage static format setup lock launchers everywhere clients pythons machines clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## a whole project in minutes: server, two BOINC clients, a real computation (ARGS=--keep leaves it running; --whole-family; --browser)
	@tools/setup.sh $(if $(findstring --whole-family,$(ARGS)),family,$(if $(findstring --browser,$(ARGS)),browser,demo))
	@$(BIN)/cobblestone demo $(ARGS)

check: ## what to run before each commit: style, types, architecture, quick tests; under 3 minutes
	@tools/setup.sh check
	@$(MAKE) --no-print-directory --keep-going --jobs 2 quick static

# Clients and servers that wait have time limits; what only computes takes the processors that they leave.
test: ## everything: check, and the tests with real clients, databases and browsers; half an hour on two slow cores
	@tools/setup.sh test
	@$(MAKE) --no-print-directory --keep-going --jobs 2 GIVING_WAY="nice -n 5" clients-at-work all-others

test-root: ## the few tests that need root, or that root passes differently (by sudo, where you are not root)
	@tools/setup.sh test
	$(SUDO) env PYTHONDONTWRITEBYTECODE=1 CI="$(CI)" $(BIN)/pytest -p no:cacheprovider $(PYTEST_ARGS) $(TWO) $(ROOT)

nightly: ## hours of searching with new seeds: all random tests at length, every test of the server on both databases, clients and servers killed 100 times, every Python
	@tools/setup.sh test
	@status=0; \
	$(BIN)/pytest $(TWO) --hypothesis-profile=nightly --every-database $(PYTEST_ARGS) $(MOST) || status=1; \
	$(BIN)/pytest --hypothesis-profile=nightly $(PYTEST_ARGS) $(BROWSERS) || status=1; \
	$(BIN)/pytest --kills=100 $(PYTEST_ARGS) $(KILLS) || status=1; \
	$(BIN)/python -m tools.mutations || status=1; \
	tools/pythons.sh --with-newest-pip $(PYTHONS) || status=1; \
	exit $$status

bench: ## measure speed on this machine, beside the peer's figures and the commit before
	@tools/setup.sh test
ifeq ($(strip $(BENCH_ARGS)),)
	$(BIN)/pytest $(PYTEST_ARGS) -s tests/bench
endif
	$(BIN)/python -m tests.bench.compare $(BENCH_ARGS)

docs: ## build the documentation site; `cobblestone docs` shows it
	@tools/setup.sh check
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

coverage: ## run the tests without clients, and say which lines none of them reached
	@tools/setup.sh test
	$(BIN)/pytest --cov --cov-report= $(PYTEST_ARGS) $(BROWSERS)
	$(BIN)/pytest $(TWO) --cov --cov-append --cov-report term --cov-report html:coverage $(PYTEST_ARGS) $(MOST)

static: pyright ruff-check ruff-format lint-imports unused

.PHONY: clients-at-work all-others in-browsers quick quick-and-slow mutations ruff-check ruff-format lint-imports pyright unused
quick:
	$(BIN)/pytest $(TWO) $(PYTEST_ARGS) $(QUICK)
quick-and-slow:
	$(GIVING_WAY) $(BIN)/pytest -o cache_dir=.pytest_cache/most $(THREE) $(PYTEST_ARGS) $(MOST)
clients-at-work:
	@echo "$(BIN)/pytest $(PYTEST_ARGS) $(E2E)  # its output comes at its end: two that print dots at once cannot be read"
	@output=$$(mktemp); status=0; $(BIN)/pytest -o cache_dir=.pytest_cache/clients $(PYTEST_ARGS) $(E2E) >$$output 2>&1 || status=1; \
	cat $$output; rm $$output; exit $$status
in-browsers:
	$(GIVING_WAY) $(BIN)/pytest -o cache_dir=.pytest_cache/browsers $(PYTEST_ARGS) $(BROWSERS)
# Types take one processor for minutes: they begin as soon as the clients have left one, and what takes two comes last.
all-others:
	@$(MAKE) --no-print-directory --keep-going in-browsers quick-and-slow static mutations
# Fifteen of the lines that promises rest on are broken, each time others; the seed is printed. `make nightly` breaks all.
mutations:
	$(GIVING_WAY) $(BIN)/python -m tools.mutations --sample 15
ruff-check:
	$(BIN)/ruff check --quiet
ruff-format:
	$(BIN)/ruff format --check --quiet
lint-imports:
	$(GIVING_WAY) $(BIN)/lint-imports --no-logo
pyright:
	$(GIVING_WAY) $(BIN)/pyright
unused:
	$(GIVING_WAY) $(BIN)/python tools/unused.py

format: ## put the code into shape
	@tools/setup.sh check
	$(BIN)/ruff check --fix --quiet
	$(BIN)/ruff format

setup: ## install everything, run nothing
	@tools/setup.sh test

everywhere: ## apps for Windows under wine, for Linux on ARM under qemu, in containers; needs wine64, podman, runc, qemu-user-static, libc6-arm64-cross, libgcc-s1-arm64-cross and a cross compiler (101 MB)
	@tools/setup.sh check
	$(BIN)/pytest $(PYTEST_ARGS) tests/everywhere

clients: ## the tests with real clients under newer ones, 8.0 and the newest of Debian, unpacked beside the system's; needs mmdebstrap
	@tools/setup.sh test
	@status=0; for suite in trixie sid; do \
		programs=$$(tools/newer_client.sh $$suite $(MIRROR)) || exit 1; \
		PATH="$$programs:$$PATH" $(BIN)/pytest $(PYTEST_ARGS) $(E2E) || status=1; \
	done; exit $$status

pythons: ## set-up, quick tests, demo, backup and restore under every Python here that is new enough, each from nothing; a table
	@tools/pythons.sh $(PYTHONS)

machines: ## servers on machines of their own, as network namespaces: cut off, packets lost; needs root, iproute2, iptables
	@tools/setup.sh test
	$(BIN)/pytest $(PYTEST_ARGS) tests/machines

launchers: ## compile the native launcher for all platforms, and note its hashes; fetches a cross compiler (101 MB)
	@tools/setup.sh check
	$(BIN)/python -m tools.launchers

lock: ## pin the requirements again (LOCK_ARGS=--upgrade takes newer ones)
	@tools/setup.sh check
	$(BIN)/python -m tools.lock $(LOCK_ARGS)

clean: ## remove .venv and whatever the tools left here
	rm -rf .venv dist build coverage src/cobblestone/site .pytest_cache .ruff_cache .hypothesis .import_linter_cache .demo
	find src tests tools examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
