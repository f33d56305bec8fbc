#!/usr/bin/env bash
# Builds the wheel for other machines, with the library of a build directory, and checks it in a new virtual
# environment. Exits with 77 (skipped) if the packages it needs cannot be downloaded.
#
#   test_wheel.sh SOURCE_DIR BUILD_DIR
set -euo pipefail
wheel=$("$1/python/build_wheel.sh" "$1" "$2" "$2/wheels")
exec "$1/python/check_wheel.sh" "$wheel"
