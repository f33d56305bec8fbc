#!/usr/bin/env bash
# Installs a wheel in a new virtual environment, without a network and away from the sources, and runs
# check_wheel.py there with an empty environment. With --release, it does so in a new minimal system of that Debian
# release, which mmdebstrap makes and removes; it needs no other packages than Python.
#
#   check_wheel.sh WHEEL [--python PROGRAM | --release NAME]
set -euo pipefail
wheel=$(realpath "$1") here=$(dirname "$(realpath "$0")")
python=python3
case ${2:-} in
  --release)
    # mmdebstrap runs the hook's command with sh and the directory of the system as $1.
    hook="set -e; mkdir \"\$1/wheel\"; cp '$here/check_wheel.sh' '$here/check_wheel.py' '$wheel' \"\$1/wheel\""
    hook+="; chroot \"\$1\" /wheel/check_wheel.sh '/wheel/$(basename "$wheel")'"
    exec mmdebstrap --quiet --variant=minbase --include=python3-venv --format=null --customize-hook="$hook" "$3"
    ;;
  --python) python=$3 ;;
  '') ;;
  *) echo "check_wheel.sh takes no '$2'" >&2 && exit 1 ;;
esac

# Sizes that the project promises, in bytes.
limit=12000000
[[ $("$python" -m zipfile -l "$wheel") == *libextensor_lapack.so* ]] && limit=25000000
size=$(stat -c %s "$wheel")
if ((size > limit)); then
  echo "$wheel has $size bytes (allowed: $limit)" >&2 && exit 1
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" -m venv "$work/venv"
"$work/venv/bin/python" -m pip --disable-pip-version-check -q install --no-index "$wheel"
cd "$work"
# One thread: those of OpenBLAS wait by spinning, which on a busy machine takes a hundred times as long.
env -i HOME="$work" PATH=/usr/bin:/bin EXTENSOR_NUM_THREADS=1 "$work/venv/bin/python" -I "$here/check_wheel.py"
