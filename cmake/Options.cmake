# Options and the compile flags that they select.

# Inside another project, its choices apply: BUILD_SHARED_LIBS and CMAKE_BUILD_TYPE are its
# variables, and extensor is installed only if it asks for that.
if(PROJECT_IS_TOP_LEVEL)
  option(BUILD_SHARED_LIBS "Build extensor as a shared library" ON)
endif()
option(EXTENSOR_SIMD_STATIC "Build kernels only for this machine's SIMD target (quick builds)" OFF)
option(EXTENSOR_WERROR "Turn warnings into errors" OFF)
option(EXTENSOR_BUILD_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(EXTENSOR_BUILD_TOOL "Build the command-line tool" ${PROJECT_IS_TOP_LEVEL})
option(EXTENSOR_BUILD_EXAMPLES "Build the examples" ${PROJECT_IS_TOP_LEVEL})
option(EXTENSOR_BUILD_FUZZ "Build the libFuzzer targets (Clang)" OFF)
option(EXTENSOR_BUILD_BENCH "Build the benchmarks" OFF)
option(EXTENSOR_INSTALL "Install the library and its CMake package" ${PROJECT_IS_TOP_LEVEL})
if(PROJECT_IS_TOP_LEVEL)
  set(EXTENSOR_CUDA AUTO CACHE STRING "Build libextensor_cuda.so: AUTO (if nvcc is found), ON, OFF")
  set(EXTENSOR_MPI AUTO CACHE STRING "Build libextensor_mpi.so: AUTO (if MPI is found), ON, OFF")
else()
  set(EXTENSOR_CUDA OFF CACHE STRING "Build libextensor_cuda.so: AUTO (if nvcc is found), ON, OFF")
  set(EXTENSOR_MPI OFF CACHE STRING "Build libextensor_mpi.so: AUTO (if MPI is found), ON, OFF")
endif()
set(EXTENSOR_JPEG AUTO CACHE STRING "Read JPEG images: AUTO (if libjpeg is found), ON, OFF")
option(EXTENSOR_OLD_SYMBOLS "Link a shared library for glibc 2.34 and newer (Linux, x86-64, GCC)" OFF)
set(EXTENSOR_SANITIZE "" CACHE STRING "Sanitizers for -fsanitize=, e.g. address,undefined")
set(EXTENSOR_PEERS_DIR "${PROJECT_SOURCE_DIR}/build/peers" CACHE PATH
    "Where the benchmark looks for an unpacked PyTorch wheel (DIR/torch)")

set(EXTENSOR_DEFAULT_OPTIONS "")
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  if(PROJECT_IS_TOP_LEVEL)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
  else()
    # Without a build type, the compiler does not optimise.
    set(EXTENSOR_DEFAULT_OPTIONS -O2)
    message(STATUS "extensor: CMAKE_BUILD_TYPE is not set; the library is compiled with -O2")
  endif()
endif()

if(PROJECT_IS_TOP_LEVEL)
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
  set(CMAKE_CXX_EXTENSIONS OFF)
  find_program(EXTENSOR_CCACHE ccache)
  mark_as_advanced(EXTENSOR_CCACHE)
  if(EXTENSOR_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    # The object code depends neither on the build directory nor on where the checkout lies.
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_NOHASHDIR=1
        CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} ${EXTENSOR_CCACHE})
  endif()
endif()

# Flags for everything this project compiles; they are not exported.
add_library(extensor_build_flags INTERFACE)
target_compile_options(extensor_build_flags INTERFACE -Wall -Wextra)
if(EXTENSOR_WERROR)
  target_compile_options(extensor_build_flags INTERFACE -Werror)
endif()
if(EXTENSOR_SIMD_STATIC)
  target_compile_options(extensor_build_flags INTERFACE -march=native)
  target_compile_definitions(extensor_build_flags INTERFACE HWY_COMPILE_ONLY_STATIC)
elseif(NOT (CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12.3))
  # The scalar kernels are written for one lane. Highway replaces its scalar target by an emulation
  # of 128-bit vectors where the compiler can build that.
  target_compile_definitions(extensor_build_flags INTERFACE HWY_BROKEN_EMU128=1)
endif()
# Of Highway's x86 targets, keep scalar, AVX2 and AVX-512. The older ones (bits 10 to 14) have no fused
# multiply-add, and machines that old run the scalar kernels. The newer ones (lower bits) add nothing that the
# kernels use; their names differ between versions of Highway.
set(_older "((HWY_AVX2 << 6) - (HWY_AVX2 << 1))")
set(_newer "(HWY_AVX3 - 1)")
if(EXTENSOR_SIMD_STATIC)
  string(APPEND _newer " & ~HWY_AVX3_DL")
endif()
target_compile_definitions(extensor_build_flags INTERFACE "HWY_DISABLED_TARGETS=(${_older} | (${_newer}))")
# GCC contracts a*b+c to FMA where available, also in references and tests: forbid it everywhere.
target_compile_options(extensor_build_flags INTERFACE -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # Highway opens a target region around headers that may define nothing inside it.
  target_compile_options(extensor_build_flags INTERFACE -Wno-pragma-clang-attribute)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # -Wpsabi is noise about vector arguments; GCC 12's -Wrestrict warns about std::string itself.
  target_compile_options(extensor_build_flags INTERFACE -Wno-psabi -Wno-restrict)
endif()

if(EXTENSOR_SANITIZE)
  set(_sanitize -fsanitize=${EXTENSOR_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  if(EXTENSOR_SANITIZE MATCHES "undefined")
    list(APPEND _sanitize -fsanitize=float-cast-overflow)
  endif()
  target_compile_options(extensor_build_flags INTERFACE ${_sanitize})
  target_link_options(extensor_build_flags INTERFACE ${_sanitize})
  set(EXTENSOR_KERNEL_OPTIONS "")
else()
  set(EXTENSOR_KERNEL_OPTIONS "-O3")
endif()
