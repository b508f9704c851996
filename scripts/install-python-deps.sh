#!/usr/bin/env bash
# Puts nats-py into .tools/py, for the test that follows a run as any NATS client would. Touches no other place.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
version=2.16.0

[ ! -d "$root/.tools/py/nats_py-$version.dist-info" ] || exit 0
python=
for candidate in python3 /usr/bin/python3 /usr/local/bin/python3; do
    if "$candidate" -m pip --version > /dev/null 2>&1; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    cat >&2 << 'MISSING'
error: no python3 with pip found
  One test follows a run with nats-py, as a subscriber in another language would. Install python3 and pip
  (Debian: python3-pip), or run the other tests alone:  scripts/test.sh -p coppice-kernel
MISSING
    exit 3
fi
echo "fetching nats-py $version into .tools/py (a few seconds)" >&2
mkdir -p "$root/.tools"
HOME="${HOME:-$root/.tools}" PIP_ROOT_USER_ACTION=ignore "$python" -m pip install --quiet --no-deps --upgrade --target "$root/.tools/py" "nats-py==$version"
