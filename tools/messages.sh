# Messages of ./ex, with suggestions for mistyped words. Sourced by ./ex.
# shellcheck shell=bash

# Text for people. Commands to paste go through show_command, on lines of their own.
say() {
  if [[ -t 2 ]]; then printf '\033[1mex:\033[0m %s\n' "$*" >&2; else printf 'ex: %s\n' "$*" >&2; fi
}
show_command() { printf '  %s\n' "$*" >&2; }
fail() {
  say "$@"
  exit 1
}

# The edit distance of two short words.
distance() {
  local a=$1 b=$2 i j cost best
  local -a previous current
  for ((j = 0; j <= ${#b}; j++)); do previous[j]=$j; done
  for ((i = 1; i <= ${#a}; i++)); do
    current[0]=$i
    for ((j = 1; j <= ${#b}; j++)); do
      cost=1
      [[ ${a:i-1:1} == "${b:j-1:1}" ]] && cost=0
      best=$((previous[j - 1] + cost))
      ((previous[j] + 1 < best)) && best=$((previous[j] + 1))
      ((current[j - 1] + 1 < best)) && best=$((current[j - 1] + 1))
      current[j]=$best
    done
    previous=("${current[@]}")
  done
  echo "${previous[${#b}]}"
}

# nearest WORD CANDIDATE...: the candidate closest to the word.
nearest() {
  local word=$1 best='' best_distance=99 candidate d
  shift
  for candidate in "$@"; do
    d=$(distance "$word" "$candidate")
    ((d < best_distance)) && best=$candidate best_distance=$d
  done
  echo "$best"
}

# one_of KIND WORD "CANDIDATES": fails with a suggestion unless the word is a candidate.
one_of() {
  local kind=$1 word=$2 candidates=$3
  [[ " $candidates " == *" $word "* ]] && return
  # shellcheck disable=SC2086
  fail "unknown $kind '$word'; did you mean '$(nearest "$word" $candidates)'? (${candidates// /, })"
}
