#!/usr/bin/env bash
# Runs a test program with several ranks on this machine.
#   tests/distributed/run.sh RANKS PROGRAM [ARGUMENTS...]
set -uo pipefail
ranks=$1
shift
source "$(dirname "$0")/mpirun.sh"
exec "${mpirun[@]}" -n "$ranks" "$@"
