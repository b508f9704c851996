#!/usr/bin/env bash
# From a clean clone to a verdict: nats-server, build, one scenario. Called by `make demo` through scripts/env.sh.
set -euo pipefail
echo '[1/3] nats-server (a few seconds if it is missing)'
COPPICE_NATS_SERVER=$(scripts/install-nats-server.sh)
export COPPICE_NATS_SERVER

echo '[2/3] build (about 4 minutes on 2 cores the first time, then under a second)'
cargo build --locked -p coppice-cli --bin coppice

echo '[3/3] coppice run fan-out-join (about 2 seconds)'
exec "${CARGO_TARGET_DIR:-target}/debug/coppice" run fan-out-join
