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

# Built from sources, next to the library's build: ccache finds objects of a directory of the same depth.
set(build ${WORK_DIR}/build)
if(WAY STREQUAL "sources")
  set(build ${BUILD_DIR}-consumer)
endif()
set(configure
    ${CMAKE_COMMAND} -S ${SOURCE_DIR}/tests/consumer -B ${build} -G Ninja -C ${CACHE})

set(tool ${WORK_DIR}/moved/bin/extensor)
if(WAY STREQUAL "package")
  file(REMOVE_RECURSE ${WORK_DIR})
  run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${WORK_DIR}/prefix)
  # The installed tool must start from any prefix.
  file(RENAME ${WORK_DIR}/prefix ${WORK_DIR}/moved)
  if(EXISTS ${tool})
    run(${CMAKE_COMMAND} -E env --unset=LD_LIBRARY_PATH ${tool} devices)
  elseif(EXISTS ${BUILD_DIR}/cli/extensor)
    message(FATAL_ERROR "the tool is not installed")
  endif()
  run(${configure} -DCMAKE_PREFIX_PATH=${WORK_DIR}/moved)

  # pkg-config works from the moved prefix too.
  find_program(pkg_config pkg-config)
  file(GLOB_RECURSE pc ${WORK_DIR}/moved/*/extensor.pc)
  if(NOT pc)
    message(FATAL_ERROR "extensor.pc is not installed")
  endif()
  if(pkg_config)
    cmake_path(GET pc PARENT_PATH pc_directory)
    include(${CACHE})
    execute_process(COMMAND ${CMAKE_COMMAND} -E env PKG_CONFIG_PATH=${pc_directory} ${pkg_config}
      --cflags --libs extensor OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE
      COMMAND_ERROR_IS_FATAL ANY)
    cmake_path(GET pc_directory PARENT_PATH library_directory)
    separate_arguments(flags)
    run(${CMAKE_CXX_COMPILER} -std=c++20 ${SOURCE_DIR}/tests/consumer/main.cpp ${flags}
        -Wl,-rpath,${library_directory} -o ${WORK_DIR}/by_pkg_config)
    run(${WORK_DIR}/by_pkg_config)
  endif()

  # The examples are installed as a project.
  file(GLOB_RECURSE examples ${WORK_DIR}/moved/share/CMakeLists.txt)
  list(FILTER examples INCLUDE REGEX "/examples/CMakeLists.txt$")
  cmake_path(GET examples PARENT_PATH examples)
  run(${CMAKE_COMMAND} -S ${examples} -B ${WORK_DIR}/examples -G Ninja -C ${CACHE}
      -DCMAKE_PREFIX_PATH=${WORK_DIR}/moved)
  run(${CMAKE_COMMAND} --build ${WORK_DIR}/examples --target linear_regression)
  run(${WORK_DIR}/examples/linear_regression --quick)
else()
  # A project that sets no options; ExTensor must not set any for it.
  foreach(subdirectory IN ITEMS OFF ON)
    file(REMOVE_RECURSE ${WORK_DIR}/plain)
    run(${CMAKE_COMMAND} -S ${SOURCE_DIR}/tests/consumer -B ${WORK_DIR}/plain -G Ninja
        -DEXTENSOR_SOURCE=${SOURCE_DIR} -DAS_SUBDIRECTORY=${subdirectory})
  endforeach()
  run(${configure} -DEXTENSOR_SOURCE=${SOURCE_DIR} -DBUILD_SHARED_LIBS=OFF)
endif()
run(${CMAKE_COMMAND} --build ${build})
run(${build}/consumer)

# Only the consumer's files may be installed.
file(REMOVE_RECURSE ${WORK_DIR}/installed)
run(${CMAKE_COMMAND} --install ${build} --prefix ${WORK_DIR}/installed)
file(GLOB_RECURSE installed RELATIVE ${WORK_DIR}/installed ${WORK_DIR}/installed/*)
if(NOT installed STREQUAL "bin/consumer")
  message(FATAL_ERROR "ExTensor installs itself with another project: ${installed}")
endif()
