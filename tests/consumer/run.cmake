# cmake -DWAY=package|sources -D... -P run.cmake: builds the consumer one way and runs it.
#   SOURCE_DIR  ExTensor's sources      BUILD_DIR  its build
#   WORK_DIR    scratch                 CXX        the compiler     LAUNCHER  ccache, or nothing

function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    list(JOIN ARGV " " command)
    message(FATAL_ERROR "${command}\n${output}")
  endif()
endfunction()

set(configure ${CMAKE_COMMAND} -S ${SOURCE_DIR}/tests/consumer -B ${WORK_DIR}/build -G Ninja
    -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER})

if(WAY STREQUAL "package")
  file(REMOVE_RECURSE ${WORK_DIR})
  run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${WORK_DIR}/prefix)
  run(${configure} -DCMAKE_PREFIX_PATH=${WORK_DIR}/prefix)
else()
  # A static library without optimisation: what is tested is the build, and this one is quick.
  run(${configure} -DEXTENSOR_SOURCE=${SOURCE_DIR} -DBUILD_SHARED_LIBS=OFF -DCMAKE_BUILD_TYPE=Debug
      -DCMAKE_CXX_FLAGS_DEBUG=-O0 -DEXTENSOR_KERNEL_OPTIONS=-O0 -DEXTENSOR_SIMD_STATIC=ON)
endif()
run(${CMAKE_COMMAND} --build ${WORK_DIR}/build)
run(${WORK_DIR}/build/consumer)
