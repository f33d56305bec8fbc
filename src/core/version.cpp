#include "extensor/version.h"

namespace extensor {

const char* version() { return EXTENSOR_VERSION; }

}  // namespace extensor
