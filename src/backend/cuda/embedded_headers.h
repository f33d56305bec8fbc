// The headers that NVRTC compiles, as text. cmake/EmbedHeaders.cmake writes the definitions.
#pragma once

namespace extensor::backend::cuda {

struct EmbeddedHeader {
  const char* name;  // as in #include
  const char* text;
};
extern const EmbeddedHeader embedded_headers[];
extern const int embedded_header_count;

}  // namespace extensor::backend::cuda
