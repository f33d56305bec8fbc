// Numbers to test with: those of the op database.
#pragma once

#include "op_database/draw.h"  // IWYU pragma: export
#include "support/layouts.h"   // IWYU pragma: export
