# EXTENSOR_OLD_SYMBOLS: three symbols decide which Linux a library built by GCC 12 on Debian 12 runs on. Linked
# in their old versions, it needs glibc 2.34 and the libstdc++ of GCC 11 instead of 2.35 and GCC 12.

if(NOT EXTENSOR_OLD_SYMBOLS)
  return()
endif()
if(NOT (CMAKE_SYSTEM_NAME STREQUAL "Linux" AND CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64"))
  message(STATUS "extensor: EXTENSOR_OLD_SYMBOLS has no effect: it is for Linux on x86-64")
  return()
endif()
target_sources(extensor PRIVATE ${PROJECT_SOURCE_DIR}/packaging/old_symbols.cpp)
target_link_options(extensor PRIVATE
  LINKER:--wrap=hypot,--wrap=hypotf
  LINKER:--wrap=_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE)
