#!/usr/bin/env bash
# Installs the package, built against a built library, into a new virtual environment and runs its tests.
# Exits with 77 (skipped) if the packages it needs cannot be downloaded.
#
#   test_package.sh SOURCE_DIR BUILD_DIR [PYTEST_ARGUMENTS...]
set -euo pipefail
source_dir=$1 work=$2/python
rm -rf "$work/venv"
"$source_dir/python/install_package.sh" "$source_dir" "$2" "$work/venv" pytest numpy mypy
# Optional: tests that compare with onnxruntime are skipped without it.
"$work/venv/bin/python" -m pip --disable-pip-version-check -q install --timeout 20 --retries 1 onnx onnxruntime \
  >>"$work/pip.log" 2>&1 || true
shift 2
cd "$work" # not in the sources, whose package has no compiled module
exec "$work/venv/bin/python" -m pytest -q -p no:cacheprovider "$source_dir/python/tests" "$@"
