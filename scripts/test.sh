#!/usr/bin/env bash
# Runs the tests with nextest if it is installed, else with cargo test. Arguments are handed on; none means all.
set -euo pipefail
if [ $# = 0 ]; then set -- --workspace; fi
if cargo nextest --version > /dev/null 2>&1; then
    profile=default
    if [ -n "${COPPICE_LONG:-}" ]; then profile=long; fi
    exec cargo nextest run --locked --profile "$profile" "$@"
fi
echo "cargo-nextest is not installed: using cargo test" >&2
# Examples are programs that tests start; nextest builds them by itself, cargo test --tests does not.
cargo build --locked --workspace --examples
exec cargo test --locked --tests "$@"
