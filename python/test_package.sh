#!/usr/bin/env bash
# Builds the wheel against a built library, installs it into a new virtual environment and runs the
# tests of the package. Exits with 77 (skipped) if the packages it needs cannot be downloaded.
#
#   test_package.sh SOURCE_DIR BUILD_DIR [PYTEST_ARGUMENTS...]
set -euo pipefail
source_dir=$1 build_dir=$2
shift 2
work=$build_dir/python
mkdir -p "$work"
if ! python3 -c 'import venv, ensurepip' 2>/dev/null; then
  echo "skipped: python3 has no module venv" && exit 77
fi
rm -rf "$work/venv"
python3 -m venv "$work/venv"
pip=("$work/venv/bin/python" -m pip --disable-pip-version-check -q)
if ! "${pip[@]}" install --timeout 20 --retries 1 scikit-build-core nanobind ninja pytest numpy mypy \
  >"$work/pip.log" 2>&1; then
  echo "skipped: pip cannot install what the build needs: $(tail -1 "$work/pip.log")" && exit 77
fi
# Optional: tests that compare with onnxruntime are skipped without it.
"${pip[@]}" install --timeout 20 --retries 1 onnx onnxruntime >>"$work/pip.log" 2>&1 || true
# Build without isolation, so that objects of the last run are found again.
"${pip[@]}" install --no-build-isolation --no-deps "$source_dir" \
  -C "build-dir=$work/build" -C "cmake.define.EXTENSOR_PREBUILT=$build_dir" \
  -C "cmake.define.CMAKE_CXX_COMPILER_LAUNCHER=$(command -v ccache || true)"
cd "$work" # not in the sources, whose package has no compiled module
exec "$work/venv/bin/python" -m pytest -q -p no:cacheprovider "$source_dir/python/tests" "$@"
