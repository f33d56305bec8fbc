# `cmake --install` and find_package(extensor).

include(CMakePackageConfigHelpers)

set(_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/extensor)

install(TARGETS extensor EXPORT extensorTargets
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(EXPORT extensorTargets NAMESPACE extensor:: DESTINATION ${_package_dir})

# Consumers of a static archive must link threads and zlib; those of a shared library need not.
set(EXTENSOR_PACKAGE_IS_STATIC OFF)
if(NOT BUILD_SHARED_LIBS)
  set(EXTENSOR_PACKAGE_IS_STATIC ON)
endif()
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/extensorConfig.cmake.in
  ${PROJECT_BINARY_DIR}/extensorConfig.cmake INSTALL_DESTINATION ${_package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/extensorConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/extensorConfig.cmake
              ${PROJECT_BINARY_DIR}/extensorConfigVersion.cmake
  DESTINATION ${_package_dir})
