// The comparisons of the op database, under the short name the tests use.
#pragma once

#include "op_database/compare.h"

namespace compare = extensor::compare;
