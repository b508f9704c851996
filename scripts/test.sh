#!/usr/bin/env bash
# Runs the tests with nextest if it is installed, else with cargo test. Arguments are handed on; none means all.
set -euo pipefail
if [ $# = 0 ]; then set -- --workspace; fi
if cargo nextest --version > /dev/null 2>&1; then
    exec cargo nextest run --locked "$@"
fi
echo "cargo-nextest is not installed: using cargo test" >&2
exec cargo test --locked --tests "$@"
