# Coppice: what a person or CI runs. `make` alone lists it.
#
# Every recipe goes through scripts/env.sh, which finds cargo and nats-server also where PATH and HOME are
# poor. What is missing is fetched into .tools/ in this directory; nothing outside it is changed.

.DEFAULT_GOAL := help
.PHONY: help demo test test-long check bench nats-server python-deps

RUN := scripts/env.sh
CASES_LONG := 4096

help: ## List these targets
	@sed -n 's/^\([a-z][a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | while IFS='|' read -r name what; do printf '%-18s %s\n' "$$name" "$$what"; done

demo: ## Install what is missing, build, run fan-out-join, print its verdict
	@$(RUN) scripts/demo.sh

test: nats-server python-deps ## Run every test (nextest where it is installed)
	@$(RUN) scripts/test.sh

test-long: nats-server python-deps ## The same tests with more cases and draws, and the store against the newest nats-server
	@COPPICE_LONG=1 PROPTEST_CASES=$(CASES_LONG) $(RUN) scripts/test.sh
	@COPPICE_NATS_SERVER="$$($(RUN) scripts/install-nats-server.sh --newer)" $(RUN) cargo test --locked -p coppice-store

check: ## Formatting, clippy with warnings as errors, docs
	@$(RUN) cargo fmt --all --check
	@$(RUN) cargo clippy --workspace --all-targets --locked -- -D warnings
	@RUSTDOCFLAGS='-D warnings' $(RUN) cargo doc --workspace --no-deps --locked

bench: nats-server ## Measure every workload beside what is aimed at (release build); the table is .coppice/bench.md
	@echo '[1/2] release build: 5 to 10 minutes the first time'
	@$(RUN) cargo build --release --locked -p coppice-cli
	@echo '[2/2] coppice bench all'
	@$(RUN) cargo run --quiet --release --locked -p coppice-cli --bin coppice -- bench all

nats-server: ## Find nats-server, or fetch it into .tools/
	@scripts/install-nats-server.sh > /dev/null

python-deps: ## Fetch nats-py for the test of a plain NATS subscriber into .tools/
	@scripts/install-python-deps.sh
