# libextensor_cuda.so: the kernels for CUDA devices. libextensor.so neither links nor needs it; it
# loads the library when a program first uses a CUDA device.

set(EXTENSOR_CUDA_ARCHITECTURES 90 CACHE STRING "The GPU architectures of libextensor_cuda.so")

set(EXTENSOR_CUDA_FOUND FALSE)
set(_reason "")
if(NOT EXTENSOR_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "EXTENSOR_CUDA is '${EXTENSOR_CUDA}' (allowed: AUTO, ON, OFF)")
elseif(EXTENSOR_CUDA STREQUAL "OFF")
  set(_reason "EXTENSOR_CUDA is OFF")
elseif(NOT BUILD_SHARED_LIBS)
  set(_reason "it needs a shared libextensor (BUILD_SHARED_LIBS=ON)")
elseif(EXTENSOR_SANITIZE)
  set(_reason "it cannot be built with sanitizers")
else()
  find_program(EXTENSOR_NVCC nvcc PATHS /usr/local/cuda/bin)
  mark_as_advanced(EXTENSOR_NVCC)
  if(EXTENSOR_NVCC OR CMAKE_CUDA_COMPILER)
    set(EXTENSOR_CUDA_FOUND TRUE)
  else()
    set(_reason "nvcc was not found (install the CUDA toolkit, or set EXTENSOR_NVCC)")
  endif()
endif()

if(NOT EXTENSOR_CUDA_FOUND)
  if(EXTENSOR_CUDA STREQUAL "ON")
    message(FATAL_ERROR "extensor: libextensor_cuda.so cannot be built: ${_reason}")
  endif()
  return()
endif()

if(NOT CMAKE_CUDA_COMPILER)
  set(CMAKE_CUDA_COMPILER ${EXTENSOR_NVCC})
endif()
set(CMAKE_CUDA_ARCHITECTURES ${EXTENSOR_CUDA_ARCHITECTURES})
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
if(NOT CMAKE_CUDA_HOST_COMPILER AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
endif()
if(EXTENSOR_CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_NOHASHDIR=1 ${EXTENSOR_CCACHE})
endif()
enable_language(CUDA)
# The host's part only prepares calls of CUDA: it is compiled to be small. Device code is optimised
# fully by default.
set(CMAKE_CUDA_FLAGS_RELEASE "-DNDEBUG -Xcompiler=-Os")
find_package(CUDAToolkit REQUIRED)
message(STATUS "extensor: libextensor_cuda.so is built with nvcc ${CMAKE_CUDA_COMPILER_VERSION}")

file(GLOB EXTENSOR_CUDA_SOURCES CONFIGURE_DEPENDS
     ${PROJECT_SOURCE_DIR}/src/backend/cuda/*.cu ${PROJECT_SOURCE_DIR}/src/backend/cuda/*.cpp
     ${PROJECT_SOURCE_DIR}/src/backend/plan/*.cpp)
# It does not link libextensor: programs that contain the library's objects can load it, too.
list(APPEND EXTENSOR_CUDA_SOURCES
     src/core/backtrace.cpp src/core/check.cpp src/core/device.cpp src/core/dtype.cpp src/core/format_number.cpp
     src/core/shape.cpp)
# The headers of the kernels that are compiled at run time, as text.
set(_headers
    backend/cpu/simd/lanes-inl.h backend/cpu/simd/math-inl.h
    backend/cpu/simd/math_activation-inl.h backend/cpu/simd/math_core-inl.h
    backend/cpu/simd/math_erf-inl.h backend/cpu/simd/math_exp_log-inl.h
    backend/cpu/simd/math_gamma-inl.h backend/cpu/simd/math_hyperbolic-inl.h
    backend/cpu/simd/math_power-inl.h backend/cpu/simd/math_round-inl.h
    backend/cpu/simd/math_trig-inl.h
    backend/cuda/device_words.cuh backend/cuda/float_math.cuh backend/cuda/formula_arguments.h
    backend/cuda/formula_kernel.cuh backend/cuda/iteration.h backend/cuda/row_functions.cuh
    backend/elementwise_op.h backend/row_expressions.h backend/row_words.h
    extensor/tables/binary.def extensor/tables/logical.def extensor/tables/unary.def
    hwy/highway.h cmath cstddef cstdint cuda_runtime.h limits type_traits)
set(_folders ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include
    ${PROJECT_SOURCE_DIR}/src/backend/cuda/one_lane
    ${PROJECT_SOURCE_DIR}/src/backend/cuda/nvrtc_std)
set(_paths "")
foreach(_header IN LISTS _headers)
  foreach(_folder IN LISTS _folders)
    if(EXISTS ${_folder}/${_header})
      list(APPEND _paths ${_folder}/${_header})
    endif()
  endforeach()
endforeach()
set(_embedded ${PROJECT_BINARY_DIR}/embedded_headers.cpp)
add_custom_command(
  OUTPUT ${_embedded}
  COMMAND ${CMAKE_COMMAND} "-DNAMES=${_headers}" "-DPATHS=${_paths}" -DOUTPUT=${_embedded}
          -P ${PROJECT_SOURCE_DIR}/cmake/EmbedHeaders.cmake
  DEPENDS ${_paths} ${PROJECT_SOURCE_DIR}/cmake/EmbedHeaders.cmake
  VERBATIM)
# Generates and compiles the kernels of formulas; needs no GPU, so that every test machine with NVRTC
# compiles all rows.
add_library(extensor_formulas OBJECT
  ${_embedded} src/backend/cuda/formula_source.cpp src/backend/cuda/libraries.cpp
  src/backend/cuda/nvrtc.cpp)
target_compile_features(extensor_formulas PRIVATE cxx_std_20)
target_include_directories(extensor_formulas PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_compile_options(extensor_formulas PRIVATE -Wall -Wextra)
if(EXTENSOR_WERROR)
  target_compile_options(extensor_formulas PRIVATE -Werror)
endif()
target_link_libraries(extensor_formulas PRIVATE extensor_headers)
set_target_properties(extensor_formulas PROPERTIES
  POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
  CXX_EXTENSIONS OFF)
list(FILTER EXTENSOR_CUDA_SOURCES EXCLUDE REGEX "/(formula_source|libraries|nvrtc)\\.cpp$")
add_library(extensor_cuda SHARED ${EXTENSOR_CUDA_SOURCES} $<TARGET_OBJECTS:extensor_formulas>)
target_compile_features(extensor_cuda PRIVATE cxx_std_20)
target_include_directories(extensor_cuda PRIVATE ${PROJECT_SOURCE_DIR}/src)
# The stand-in for Highway with which the op tables compile as device code.
target_include_directories(extensor_cuda BEFORE PRIVATE
  $<$<COMPILE_LANGUAGE:CUDA>:${PROJECT_SOURCE_DIR}/src/backend/cuda/one_lane>)
# cuDNN is opened at run time. Its frontend is a package of headers that `./ex` fetches; without them
# convolution and attention of halves use the kernels of ExTensor alone, which are slower.
find_path(EXTENSOR_CUDNN_FRONTEND cudnn_frontend.h
          PATHS ${PROJECT_SOURCE_DIR}/build/cudnn-frontend/include)
find_path(EXTENSOR_CUDNN cudnn.h PATHS ${CUDAToolkit_INCLUDE_DIRS})
mark_as_advanced(EXTENSOR_CUDNN_FRONTEND EXTENSOR_CUDNN)
if(EXTENSOR_CUDNN_FRONTEND AND EXTENSOR_CUDNN)
  target_include_directories(extensor_cuda SYSTEM PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:${EXTENSOR_CUDNN_FRONTEND}>
    $<$<COMPILE_LANGUAGE:CXX>:${EXTENSOR_CUDNN}>)
else()
  message(STATUS "extensor: libextensor_cuda.so does not use cuDNN (its headers were not found)")
endif()
# Suppressed: comparisons of unsigned numbers with 0 in templates, and long double, which is double on
# a GPU; and GCC 12's -Wrestrict, which warns about std::string itself.
target_compile_options(extensor_cuda PRIVATE
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -ffp-contract=off>
  $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-Os>
  "$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;--expt-relaxed-constexpr;-diag-suppress=186,20208;--compress-mode=size;-Xcompiler=-Wall;-Xcompiler=-ffp-contract=off>")
if(EXTENSOR_WERROR)
  target_compile_options(extensor_cuda PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-Werror> $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
endif()
target_link_libraries(extensor_cuda PRIVATE extensor_headers CUDA::cudart_static ${CMAKE_DL_LIBS})
# The functions that libextensor looks up are exported, not the symbols of the runtime.
target_link_options(extensor_cuda PRIVATE LINKER:-z,nodelete LINKER:--no-undefined
  LINKER:--exclude-libs,ALL LINKER:--gc-sections LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/cuda_library.map)
set_target_properties(extensor_cuda PROPERTIES
  POSITION_INDEPENDENT_CODE ON
  CXX_VISIBILITY_PRESET hidden
  CUDA_VISIBILITY_PRESET hidden
  VISIBILITY_INLINES_HIDDEN ON
  CXX_EXTENSIONS OFF
  CUDA_EXTENSIONS OFF
  BUILD_RPATH "$ORIGIN"
  INSTALL_RPATH "$ORIGIN")
# Draws have the same bits on every device.
set_source_files_properties(src/backend/cuda/random.cu PROPERTIES COMPILE_OPTIONS -fmad=false)
# Products of complex numbers cancel as on the CPU, and thrust's formulas rely on rounded products.
set_source_files_properties(src/backend/cuda/complex.cu PROPERTIES COMPILE_OPTIONS -fmad=false)

if(EXTENSOR_INSTALL)
  install(TARGETS extensor_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT cuda)
endif()
