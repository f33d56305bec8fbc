# cmake -DWAY=package|sources -D... -P run.cmake: builds the consumer one way and runs it.
#   SOURCE_DIR  ExTensor's sources    BUILD_DIR  its build
#   WORK_DIR    scratch               CACHE      initial cache: how that build was configured

function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    list(JOIN ARGV " " command)
    message(FATAL_ERROR "${command}\n${output}")
  endif()
endfunction()

set(configure
    ${CMAKE_COMMAND} -S ${SOURCE_DIR}/tests/consumer -B ${WORK_DIR}/build -G Ninja -C ${CACHE})

if(WAY STREQUAL "package")
  file(REMOVE_RECURSE ${WORK_DIR})
  run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${WORK_DIR}/prefix)
  run(${configure} -DCMAKE_PREFIX_PATH=${WORK_DIR}/prefix)
else()
  run(${configure} -DEXTENSOR_SOURCE=${SOURCE_DIR} -DBUILD_SHARED_LIBS=OFF)
endif()
run(${CMAKE_COMMAND} --build ${WORK_DIR}/build)
run(${WORK_DIR}/build/consumer)
