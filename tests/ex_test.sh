#!/usr/bin/env bash
# ./ex changes the machine only with consent: as root, with --yes, or after a question. The commands
# that it prints can be pasted. Fakes of sudo and apt-get record what is run.
#   tests/ex_test.sh
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

# Another user, if the tests run as root.
user=()
if ((EUID == 0)); then
  user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
  if ! "${user[@]}" true 2>/dev/null; then
    echo 'SKIPPED ex_test Sudo: runs as root and cannot become another user'
    exit 77
  fi
fi

mkdir "$work/bin" "$work/repository"
cp -r "$root/ex" "$root/tools" "$work/repository"
# The machine lacks the package of one probe, a command that cannot exist.
cat >>"$work/repository/tools/packages.sh" <<'BASH'
need_format='
cmd:no-such-command-here  some-package      the test
'
BASH
cat >"$work/bin/sudo" <<BASH
#!/bin/sh
echo "sudo \$*" >>"$work/log"
exit 0
BASH
printf '#!/bin/sh\nexit 0\n' >"$work/bin/apt-get"
printf '#!/bin/sh\nexit 0\n' >"$work/bin/clang-format-14"
chmod -R a+rX "$work"
chmod a+x "$work/bin"/*

# run ARGUMENTS...: ./ex, without a terminal, as a user without privileges.
run() {
  : >"$work/log"
  chmod a+w "$work/log"
  (cd "$work/repository" && PATH=$work/bin:$PATH "${user[@]}" ./ex "$@" </dev/null >"$work/out" 2>&1)
}
check() {
  "${@:2}" && return
  echo "FAIL: $1" >&2
  sed 's/^/    /' "$work/out" >&2
  failures=$((failures + 1))
}
asks_nothing_of_sudo() { [[ ! -s $work/log ]]; }
prints() { grep -qxF -- "$1" "$work/out"; }

run format && check 'format succeeds without its package' false
check 'sudo is used without consent' asks_nothing_of_sudo
check 'no command to paste' prints '  sudo apt-get install --no-install-recommends some-package'
check 'no word about --yes' grep -q -- '--yes' "$work/out"

run format --yes
check '--yes does not install' grep -q '^sudo env .*apt-get .*install some-package$' "$work/log"

# Without sudo, an administrator gets the command.
rm "$work/bin/sudo"
mkdir "$work/few"
for name in bash env dirname cat sed grep find sort xargs tail mktemp rm; do ln -s "$(command -v $name)" "$work/few/$name"; done
ln -s "$work/bin/apt-get" "$work/few/apt-get"
(cd "$work/repository" && PATH=$work/few "${user[@]/#setpriv/$(command -v setpriv)}" ./ex format </dev/null >"$work/out" 2>&1) &&
  check 'format succeeds without its package' false
check 'no command for an administrator' prints '  apt-get install --no-install-recommends some-package'

# With a terminal, it asks; "n" changes nothing and "y" installs.
if command -v script >/dev/null; then
  printf '#!/bin/sh\necho "sudo $*" >>"%s"\n' "$work/log" >"$work/bin/sudo"
  chmod a+x "$work/bin/sudo"
  for answer in n y; do
    : >"$work/log"
    chmod a+w "$work/log"
    (cd "$work/repository" && echo "$answer" |
      PATH=$work/bin:$PATH script -qec "${user[*]} ./ex format" /dev/null >"$work/out" 2>&1)
    check 'no question' grep -q 'Run it? \[y/N\]' "$work/out"
    [[ $answer == y ]] && check '"y" does not install' grep -q 'install some-package' "$work/log"
    [[ $answer == n ]] && check '"n" installs' asks_nothing_of_sudo
  done
fi
exit $((failures > 0))
