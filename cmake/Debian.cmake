# Debian packages: libextensor0 (the library), libextensor-dev, extensor (the tool) and, where they are
# built, libextensor0-mpi and libextensor0-cuda. `./ex package` builds them in build/packages.

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME extensor)
set(CPACK_PACKAGE_CONTACT "ExTensor authors")
set(CPACK_PACKAGE_VENDOR ExTensor)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL library development tool)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(_this "(= ${PROJECT_VERSION})")

set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libextensor${PROJECT_VERSION_MAJOR})
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRARY_DESCRIPTION "Tensors, gradients and neural networks: the shared library")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_GENERATE_SHLIBS ON)

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libextensor-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION
    "Tensors, gradients and neural networks: headers, documentation and examples")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "${CPACK_DEBIAN_LIBRARY_PACKAGE_NAME} ${_this}")

set(CPACK_DEBIAN_TOOL_PACKAGE_NAME extensor)
set(CPACK_DEBIAN_TOOL_PACKAGE_SECTION science)
set(CPACK_DEBIAN_TOOL_DESCRIPTION "Trains neural networks and inspects tensors on the command line")
set(CPACK_DEBIAN_TOOL_PACKAGE_DEPENDS "${CPACK_DEBIAN_LIBRARY_PACKAGE_NAME} ${_this}")
# Libraries that libextensor.so opens on first use: packages of their own, so that it needs neither
# MPI nor CUDA.
foreach(_part IN ITEMS mpi cuda)
  if(TARGET extensor_${_part})
    string(TOUPPER ${_part} _name)
    list(APPEND CPACK_COMPONENTS_ALL ${_part})
    set(CPACK_DEBIAN_${_name}_PACKAGE_NAME ${CPACK_DEBIAN_LIBRARY_PACKAGE_NAME}-${_part})
    set(CPACK_DEBIAN_${_name}_PACKAGE_SECTION libs)
    set(CPACK_DEBIAN_${_name}_PACKAGE_DEPENDS "${CPACK_DEBIAN_LIBRARY_PACKAGE_NAME} ${_this}")
  endif()
endforeach()
set(CPACK_DEBIAN_MPI_PACKAGE_RECOMMENDS openmpi-bin)  # mpirun
set(CPACK_DEBIAN_MPI_DESCRIPTION "Tensors, gradients and neural networks: training on several processes")
set(CPACK_DEBIAN_CUDA_DESCRIPTION "Tensors, gradients and neural networks: CUDA devices")
# dpkg-shlibdeps finds the library in its package, not on this machine.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR})

include(CPack)
