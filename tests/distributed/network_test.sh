#!/usr/bin/env bash
# A network that stops: two ranks on two machines, which are network namespaces joined by a virtual
# cable. When the cable is cut, both end within 5 s with an error that names the other.
#   tests/distributed/network_test.sh FAILING_RANK
set -uo pipefail
program=$(realpath "$1")
source "$(dirname "$0")/mpirun.sh"
if ! mpirun --version | grep -q 'Open MPI'; then
  echo "SKIPPED network: it is written for the options of Open MPI"
  exit 77
fi
first=extensor-$$-a second=extensor-$$-b
if ! ip netns add "$first" 2>/dev/null; then
  echo "SKIPPED network: network namespaces are not permitted here (ip netns add)"
  exit 77
fi
work=$(mktemp -d)
# shellcheck disable=SC2317  # called by trap
clean_up() {
  local space
  for space in "$first" "$second"; do
    ip netns pids "$space" 2>/dev/null | xargs -r kill -KILL 2>/dev/null
    ip netns del "$space" 2>/dev/null
  done
  rm -rf "$work"
}
trap clean_up EXIT
ip netns add "$second" || exit 1
ip link add cable-a netns "$first" type veth peer name cable-b netns "$second" || exit 1
ip -n "$first" addr add 192.0.2.1/24 dev cable-a
ip -n "$second" addr add 192.0.2.2/24 dev cable-b
for space in "$first" "$second"; do ip -n "$space" link set lo up; done
ip -n "$first" link set cable-a up
ip -n "$second" link set cable-b up

# mpirun starts its daemon on the other machine with this in place of ssh.
cat >"$work/agent" <<AGENT
#!/bin/sh
shift
exec ip netns exec $second unshare --uts sh -c "hostname machine-b; \$*"
AGENT
chmod +x "$work/agent"
: >"$work/err"
export EXTENSOR_CUT="ip -n $second link set cable-b down"
timeout -k 1 60 ip netns exec "$first" unshare --uts sh -c 'hostname machine-a; exec "$@"' sh \
  "${mpirun[@]}" -n 2 --host 192.0.2.1,192.0.2.2 -x EXTENSOR_CUT -x EXTENSOR_NUM_THREADS \
  --mca plm_rsh_agent "$work/agent" --mca btl tcp,self \
  --mca btl_tcp_if_include 192.0.2.0/24 --mca oob_tcp_if_include 192.0.2.0/24 \
  sh -c "exec $program network 2>>$work/err" >"$work/out" 2>&1 &
run=$!
for ((k = 0; k < 500; ++k)); do
  (($(grep -c '^ENDS' "$work/err" 2>/dev/null) == 2)) && break
  kill -0 $run 2>/dev/null || break
  sleep 0.1
done
kill -TERM $run 2>/dev/null
wait $run 2>/dev/null
problem=''
for rank in 0 1; do
  machine=machine-$([[ $rank == 0 ]] && echo b || echo a)
  grep "^ENDS rank $rank " "$work/err" | grep -q \
    "all_reduce (sum) of 1000 float32.*rank $((1 - rank)) (process .* on $machine) hangs or cannot be reached" ||
    problem="rank $rank does not name the other one"
done
seconds=$(awk '/^FAILS/ { begin = $5 } /^ENDS/ { sub(":", "", $5); if ($5 > end) end = $5 }
  END { printf "%.2f", end - begin }' "$work/err")
awk -v s="$seconds" 'BEGIN { exit !(s > 5 || s <= 0) }' && problem="$seconds s until the last rank ended"
if [[ -n $problem ]]; then
  echo "FAIL: $problem" >&2
  sed 's/^/    /' "$work/out" "$work/err" >&2
  exit 1
fi
echo "both ranks ended $seconds s after the network had stopped"
