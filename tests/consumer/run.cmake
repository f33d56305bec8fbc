# cmake -DWAY=package|sources -D... -P run.cmake: builds the consumer in one way and runs it.
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

set(tool ${WORK_DIR}/moved/bin/extensor)
if(WAY STREQUAL "package")
  file(REMOVE_RECURSE ${WORK_DIR})
  run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${WORK_DIR}/prefix)
  # The installed tool starts from any prefix.
  file(RENAME ${WORK_DIR}/prefix ${WORK_DIR}/moved)
  if(EXISTS ${tool})
    run(${CMAKE_COMMAND} -E env --unset=LD_LIBRARY_PATH ${tool} devices)
  elseif(EXISTS ${BUILD_DIR}/cli/extensor)
    message(FATAL_ERROR "the tool is not installed")
  endif()
  run(${configure} -DCMAKE_PREFIX_PATH=${WORK_DIR}/moved)
else()
  # A project that sets no build options; ExTensor must not set them either.
  foreach(subdirectory IN ITEMS OFF ON)
    file(REMOVE_RECURSE ${WORK_DIR}/plain)
    run(${CMAKE_COMMAND} -S ${SOURCE_DIR}/tests/consumer -B ${WORK_DIR}/plain -G Ninja
        -DEXTENSOR_SOURCE=${SOURCE_DIR} -DAS_SUBDIRECTORY=${subdirectory})
  endforeach()
  run(${configure} -DEXTENSOR_SOURCE=${SOURCE_DIR} -DBUILD_SHARED_LIBS=OFF)
endif()
run(${CMAKE_COMMAND} --build ${WORK_DIR}/build)
run(${WORK_DIR}/build/consumer)

# Only the consumer's own files are installed with it.
file(REMOVE_RECURSE ${WORK_DIR}/installed)
run(${CMAKE_COMMAND} --install ${WORK_DIR}/build --prefix ${WORK_DIR}/installed)
file(GLOB_RECURSE installed RELATIVE ${WORK_DIR}/installed ${WORK_DIR}/installed/*)
if(NOT installed STREQUAL "bin/consumer")
  message(FATAL_ERROR "ExTensor installs itself with another project: ${installed}")
endif()
