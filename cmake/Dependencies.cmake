# Highway and nlohmann-json (headers, needed at build time only), threads, zlib and libjpeg. None of them
# appears on a consumer's compile line.

# extensor_find_headers(NAME PACKAGE package TARGET target HEADER header DEBIAN package): sets
# EXTENSOR_<NAME>_INCLUDES to the include directories of a header-only dependency. It takes, in this
# order, -DEXTENSOR_<NAME>_INCLUDE_DIR, the target (of this project or of find_package, which vcpkg,
# Conan and -D<package>_DIR provide), and the system's headers.
function(extensor_find_headers name)
  cmake_parse_arguments(ARG "" "PACKAGE;TARGET;HEADER;DEBIAN" "" ${ARGN})
  set(directory EXTENSOR_${name}_INCLUDE_DIR)
  if(NOT ${directory})
    if(NOT TARGET ${ARG_TARGET})
      find_package(${ARG_PACKAGE} CONFIG QUIET)
    endif()
    if(TARGET ${ARG_TARGET})
      # The include directories only: nothing of the dependency is linked.
      set(EXTENSOR_${name}_INCLUDES $<TARGET_PROPERTY:${ARG_TARGET},INTERFACE_INCLUDE_DIRECTORIES>
          PARENT_SCOPE)
      return()
    endif()
    find_path(${directory} ${ARG_HEADER} DOC "Directory that holds ${ARG_HEADER}")
  endif()
  if(NOT ${directory})
    message(FATAL_ERROR
      "extensor: ${ARG_HEADER} was not found. Install it (Debian, Ubuntu: apt install "
      "${ARG_DEBIAN}), let find_package(${ARG_PACKAGE}) find it, or pass "
      "-D${directory}=<directory that holds ${ARG_HEADER}>.")
  endif()
  set(EXTENSOR_${name}_INCLUDES ${${directory}} PARENT_SCOPE)
endfunction()

extensor_find_headers(HIGHWAY PACKAGE hwy TARGET hwy::hwy HEADER hwy/highway.h DEBIAN libhwy-dev)
extensor_find_headers(JSON PACKAGE nlohmann_json TARGET nlohmann_json::nlohmann_json
                      HEADER nlohmann/json.hpp DEBIAN nlohmann-json3-dev)
find_package(ZLIB REQUIRED)
find_package(Threads REQUIRED)

# libjpeg-turbo is linked, not opened at run time: its structures differ between versions of the
# library, and packages then name it as a dependency. EXTENSOR_JPEG_LIBRARY is empty without it.
set(EXTENSOR_JPEG_LIBRARY "")
if(NOT EXTENSOR_JPEG STREQUAL "OFF")
  find_package(JPEG QUIET)
  if(JPEG_FOUND)
    set(EXTENSOR_JPEG_LIBRARY JPEG::JPEG)
  elseif(EXTENSOR_JPEG STREQUAL "ON")
    message(FATAL_ERROR
      "extensor: EXTENSOR_JPEG is ON and libjpeg was not found. Install libjpeg-turbo (Debian: apt "
      "install libjpeg62-turbo-dev, Ubuntu: libjpeg-turbo8-dev), or pass -DEXTENSOR_JPEG=OFF.")
  else()
    message(STATUS "extensor: libjpeg was not found; JPEG images will be refused")
  endif()
endif()
