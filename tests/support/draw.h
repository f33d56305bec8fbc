// The random numbers of the op database, for tests.
#pragma once

#include "op_database/draw.h"  // IWYU pragma: export
#include "support/layouts.h"   // IWYU pragma: export
