# Highway (headers only, at build time only) and OpenMP. Neither reaches a consumer's compile line.

find_path(EXTENSOR_HIGHWAY_INCLUDE_DIR hwy/highway.h
          DOC "Directory that holds hwy/highway.h (Google Highway)")
if(NOT EXTENSOR_HIGHWAY_INCLUDE_DIR)
  message(FATAL_ERROR
    "extensor: hwy/highway.h (Google Highway) was not found. Install it (Debian, Ubuntu: apt install "
    "libhwy-dev) or pass -DEXTENSOR_HIGHWAY_INCLUDE_DIR=<dir that holds hwy/>.")
endif()

find_package(OpenMP REQUIRED COMPONENTS CXX)
