// The layouts of the op database, under the short name the tests use.
#pragma once

#include "op_database/layouts.h"

namespace layouts = extensor::layouts;
