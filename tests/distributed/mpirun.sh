# The command that starts ranks on this machine; sourced. Ends the script with a skip if there is none.
# shellcheck shell=bash disable=SC2034
if ! command -v mpirun >/dev/null; then
  echo "SKIPPED distributed: mpirun is not installed (Debian, Ubuntu: openmpi-bin)"
  exit 77
fi
# Several ranks share a core here.
export EXTENSOR_NUM_THREADS=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
mpirun=(mpirun)
if mpirun --version 2>/dev/null | grep -q 'Open MPI'; then
  mpirun=(mpirun --oversubscribe)
  ((EUID == 0)) && mpirun+=(--allow-run-as-root)
fi
