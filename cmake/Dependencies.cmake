# Highway and nlohmann-json (headers, needed at build time only), threads and zlib. None of them
# appears on a consumer's compile line.

find_path(EXTENSOR_HIGHWAY_INCLUDE_DIR hwy/highway.h
          DOC "Directory that holds hwy/highway.h (Google Highway)")
if(NOT EXTENSOR_HIGHWAY_INCLUDE_DIR)
  message(FATAL_ERROR
    "extensor: hwy/highway.h (Google Highway) was not found. Install it (Debian, Ubuntu: apt install "
    "libhwy-dev) or pass -DEXTENSOR_HIGHWAY_INCLUDE_DIR=<dir that holds hwy/>.")
endif()

find_path(EXTENSOR_JSON_INCLUDE_DIR nlohmann/json.hpp
          DOC "Directory that holds nlohmann/json.hpp (JSON for Modern C++)")
if(NOT EXTENSOR_JSON_INCLUDE_DIR)
  message(FATAL_ERROR
    "extensor: nlohmann/json.hpp was not found. Install it (Debian, Ubuntu: apt install "
    "nlohmann-json3-dev) or pass -DEXTENSOR_JSON_INCLUDE_DIR=<dir that holds nlohmann/>.")
endif()

find_package(ZLIB REQUIRED)
find_package(Threads REQUIRED)
