# `cmake --install`, find_package(extensor) and pkg-config. Three components: library, development
# and tool, which are also the Debian packages (cmake/Debian.cmake).

include(CMakePackageConfigHelpers)

set(_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/extensor)

install(TARGETS extensor EXPORT extensorTargets
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT library
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT development
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  COMPONENT development)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT library)
install(EXPORT extensorTargets NAMESPACE extensor:: DESTINATION ${_package_dir}
  COMPONENT development)

# Consumers of a static archive must link threads, zlib and libjpeg; those of a shared library need not.
set(EXTENSOR_PACKAGE_IS_STATIC OFF)
set(EXTENSOR_PC_LINKED "-lz -pthread")
if(EXTENSOR_JPEG_LIBRARY)
  string(PREPEND EXTENSOR_PC_LINKED "-ljpeg ")
endif()
set(EXTENSOR_PC_STATIC_LIBS "")
if(NOT BUILD_SHARED_LIBS)
  set(EXTENSOR_PACKAGE_IS_STATIC ON)
  set(EXTENSOR_PC_STATIC_LIBS " ${EXTENSOR_PC_LINKED}")
endif()
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/extensorConfig.cmake.in
  ${PROJECT_BINARY_DIR}/extensorConfig.cmake INSTALL_DESTINATION ${_package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/extensorConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/extensorConfig.cmake
              ${PROJECT_BINARY_DIR}/extensorConfigVersion.cmake
  DESTINATION ${_package_dir} COMPONENT development)

# Paths in the pkg-config file are relative to the file itself, so that the prefix can be moved,
# unless an install directory was given as an absolute path.
set(_pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
if(IS_ABSOLUTE ${_pc_dir})
  set(EXTENSOR_PC_PREFIX ${CMAKE_INSTALL_PREFIX})
else()
  file(RELATIVE_PATH _up /prefix/${_pc_dir} /prefix)
  string(REGEX REPLACE "/$" "" _up "${_up}")
  set(EXTENSOR_PC_PREFIX "\${pcfiledir}/${_up}")
endif()
foreach(_kind IN ITEMS INCLUDEDIR LIBDIR)
  cmake_path(APPEND _${_kind} "\${prefix}" "${CMAKE_INSTALL_${_kind}}")
  set(EXTENSOR_PC_${_kind} "${_${_kind}}")
endforeach()
configure_file(${CMAKE_CURRENT_LIST_DIR}/extensor.pc.in ${PROJECT_BINARY_DIR}/extensor.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/extensor.pc DESTINATION ${_pc_dir} COMPONENT development)

# The documentation, and the examples as a project of their own.
install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md
  DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT development)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs ${PROJECT_SOURCE_DIR}/examples
  DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT development)

# gdb loads the printers together with the library: it looks for a file of this name.
if(BUILD_SHARED_LIBS AND NOT APPLE AND NOT WIN32)
  install(FILES ${PROJECT_SOURCE_DIR}/tools/gdb_printers.py COMPONENT development
    DESTINATION ${CMAKE_INSTALL_DATADIR}/gdb/auto-load${CMAKE_INSTALL_FULL_LIBDIR}
    RENAME libextensor.so.${PROJECT_VERSION}-gdb.py)
endif()

if(PROJECT_IS_TOP_LEVEL)
  include(${CMAKE_CURRENT_LIST_DIR}/Debian.cmake)
endif()
