// All of ExTensor.
#pragma once

#include "extensor/broadcasting.h"  // IWYU pragma: export
#include "extensor/creation.h"      // IWYU pragma: export
#include "extensor/dual.h"          // IWYU pragma: export
#include "extensor/elementwise.h"   // IWYU pragma: export
#include "extensor/gradcheck.h"     // IWYU pragma: export
#include "extensor/manipulation.h"  // IWYU pragma: export
#include "extensor/matrix.h"        // IWYU pragma: export
#include "extensor/memory.h"        // IWYU pragma: export
#include "extensor/random.h"        // IWYU pragma: export
#include "extensor/reduction.h"     // IWYU pragma: export
#include "extensor/second_order.h"  // IWYU pragma: export
#include "extensor/softmax.h"       // IWYU pragma: export
#include "extensor/tensor.h"        // IWYU pragma: export
#include "extensor/threads.h"       // IWYU pragma: export
#include "extensor/user_ops.h"      // IWYU pragma: export
