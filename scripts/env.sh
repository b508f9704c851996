#!/usr/bin/env bash
# Runs a command with cargo on PATH and COPPICE_NATS_SERVER set:  scripts/env.sh cargo build
#
# Works with PATH=/usr/bin:/bin and with a HOME that is unset, empty or not writable: the toolchain is then
# looked for in the home directory of the password database. Changes nothing but the command's environment.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# The home directory of the user who runs this, whatever HOME says.
account_home() {
    if command -v getent > /dev/null 2>&1; then
        getent passwd "$(id -u)" | cut -d: -f6
    else
        eval "echo ~$(id -un)"
    fi
}

# A rustup proxy without its toolchains is no cargo; so each candidate is asked for its version.
cargo_works() { [ -x "$1" ] && "$1" --version > /dev/null 2>&1; }

# Sets `cargo`, and RUSTUP_HOME where rustup was installed under another HOME: its toolchains are beside it.
find_cargo() {
    local home toolchains
    home=$(account_home || true)
    for cargo in \
        "${CARGO_HOME:+$CARGO_HOME/bin/cargo}" \
        "$(command -v cargo || true)" \
        "${HOME:+$HOME/.cargo/bin/cargo}" \
        "${home:+$home/.cargo/bin/cargo}" \
        /usr/local/cargo/bin/cargo /usr/local/bin/cargo /usr/bin/cargo /opt/homebrew/bin/cargo; do
        if cargo_works "$cargo"; then return; fi
        for toolchains in "${cargo%/*}/../../.rustup" "${cargo%/*}/../../rustup"; do
            if [ -d "$toolchains" ] && RUSTUP_HOME="$toolchains" cargo_works "$cargo"; then
                RUSTUP_HOME=$(cd "$toolchains" && pwd)
                export RUSTUP_HOME
                return
            fi
        done
    done
    return 1
}

if ! find_cargo; then
    cat >&2 << 'MISSING'
error: no working cargo found
  looked in: $CARGO_HOME/bin, PATH, ~/.cargo/bin, /usr/local/cargo/bin, /usr/local/bin, /usr/bin, /opt/homebrew/bin
  Coppice is built from source with Rust 1.90 or newer. Get it with one of
    rustup (https://rustup.rs), apt-get install rustup, brew install rust
  and run this again.
MISSING
    exit 3
fi
export PATH="${cargo%/*}:$PATH"

# cargo keeps its downloads in the home directory; where that cannot be written they go to .tools/.
home=${HOME:-$(account_home || true)}
if [ -z "${CARGO_HOME:-}" ] && ! [ -w "$home/.cargo" ] && ! [ -w "$home" ]; then
    export CARGO_HOME="$root/.tools/cargo"
fi

if nats=$("$root/scripts/install-nats-server.sh" --find); then
    export COPPICE_NATS_SERVER="$nats"
fi
if [ -d "$root/.tools/py" ]; then
    export COPPICE_TEST_PYTHONPATH="$root/.tools/py"
fi

cd "$root"
exec "$@"
