# libextensor_mpi.so: collectives between processes over MPI. libextensor.so neither links nor needs
# it; it loads the library when a program is one of several ranks.

set(_reason "")
if(NOT EXTENSOR_MPI MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "EXTENSOR_MPI is '${EXTENSOR_MPI}' (allowed: AUTO, ON, OFF)")
elseif(EXTENSOR_MPI STREQUAL "OFF")
  set(_reason "EXTENSOR_MPI is OFF")
elseif(NOT BUILD_SHARED_LIBS)
  set(_reason "it needs a shared libextensor (BUILD_SHARED_LIBS=ON)")
elseif(EXTENSOR_SANITIZE)
  set(_reason "MPI itself is not built with sanitizers")
else()
  set(MPI_CXX_SKIP_MPICXX TRUE)  # only the C interface is used
  enable_language(C)             # FindMPI looks for the C interface
  find_package(MPI COMPONENTS C QUIET)
  if(NOT MPI_C_FOUND)
    set(_reason "MPI was not found (Debian, Ubuntu: apt install libopenmpi-dev openmpi-bin)")
  endif()
endif()
if(_reason)
  if(EXTENSOR_MPI STREQUAL "ON")
    message(FATAL_ERROR "extensor: libextensor_mpi.so cannot be built: ${_reason}")
  endif()
  return()
endif()
message(STATUS "extensor: libextensor_mpi.so is built with MPI ${MPI_C_VERSION}")

add_library(extensor_mpi SHARED ${PROJECT_SOURCE_DIR}/src/distributed/mpi/mpi_library.cpp)
target_compile_features(extensor_mpi PRIVATE cxx_std_20)
target_include_directories(extensor_mpi PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(extensor_mpi PRIVATE extensor_build_flags extensor_headers MPI::MPI_C)
# Open MPI's casts of predefined handles are C-style casts in its own header.
target_compile_definitions(extensor_mpi PRIVATE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
target_link_options(extensor_mpi PRIVATE LINKER:-z,nodelete LINKER:--no-undefined
  LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/mpi_library.map)
set_target_properties(extensor_mpi PROPERTIES
  POSITION_INDEPENDENT_CODE ON
  CXX_VISIBILITY_PRESET hidden
  VISIBILITY_INLINES_HIDDEN ON
  CXX_EXTENSIONS OFF)
if(EXTENSOR_INSTALL)
  install(TARGETS extensor_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT mpi)
endif()
