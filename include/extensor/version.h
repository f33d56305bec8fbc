// Which ExTensor this is.
#pragma once

namespace extensor {

// "0.1.0"
const char* version();

}  // namespace extensor
