#!/usr/bin/env bash
# Builds the wheel against a built library and installs it in the virtual environment VENV, which is made
# if it is not there. Exits with 77 if the packages it needs cannot be downloaded.
#
#   install_package.sh SOURCE_DIR BUILD_DIR VENV [PACKAGES...]
set -euo pipefail
source_dir=$1 build_dir=$(realpath "$2") venv=$3
shift 3
if ! python3 -c 'import venv, ensurepip' 2>/dev/null; then
  echo "skipped: python3 has no module venv" && exit 77
fi
work=$build_dir/python
mkdir -p "$work"
[[ -e $venv/bin/python ]] || python3 -m venv "$venv"
pip=("$venv/bin/python" -m pip --disable-pip-version-check -q)
if ! "${pip[@]}" install --timeout 20 --retries 1 scikit-build-core nanobind ninja "$@" >"$work/pip.log" 2>&1; then
  echo "skipped: pip cannot install what the build needs: $(tail -1 "$work/pip.log")" && exit 77
fi
# Build without isolation, so that objects of the last run are found again.
CCACHE_NOHASHDIR=1 CCACHE_BASEDIR=$(realpath "$source_dir") "${pip[@]}" install --no-build-isolation --no-deps --force-reinstall "$source_dir" \
  --config-settings "build-dir=$work/build" --config-settings "cmake.define.EXTENSOR_PREBUILT=$build_dir" \
  --config-settings "cmake.define.CMAKE_CXX_COMPILER_LAUNCHER=$(command -v ccache || true)"
