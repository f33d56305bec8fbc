// All of ExTensor.
#pragma once

#include "extensor/attention.h"        // IWYU pragma: export
#include "extensor/autograd.h"         // IWYU pragma: export
#include "extensor/broadcasting.h"     // IWYU pragma: export
#include "extensor/convolution.h"      // IWYU pragma: export
#include "extensor/creation.h"         // IWYU pragma: export
#include "extensor/cumulative.h"       // IWYU pragma: export
#include "extensor/data.h"             // IWYU pragma: export
#include "extensor/device.h"           // IWYU pragma: export
#include "extensor/dropout.h"          // IWYU pragma: export
#include "extensor/dual.h"             // IWYU pragma: export
#include "extensor/einsum.h"           // IWYU pragma: export
#include "extensor/elementwise.h"      // IWYU pragma: export
#include "extensor/embedding.h"        // IWYU pragma: export
#include "extensor/gradcheck.h"        // IWYU pragma: export
#include "extensor/indexing.h"         // IWYU pragma: export
#include "extensor/initializers.h"     // IWYU pragma: export
#include "extensor/linear.h"           // IWYU pragma: export
#include "extensor/losses.h"           // IWYU pragma: export
#include "extensor/manipulation.h"     // IWYU pragma: export
#include "extensor/matrix.h"           // IWYU pragma: export
#include "extensor/memory.h"           // IWYU pragma: export
#include "extensor/normalization.h"    // IWYU pragma: export
#include "extensor/optim.h"            // IWYU pragma: export
#include "extensor/optimizer_steps.h"  // IWYU pragma: export
#include "extensor/pooling.h"          // IWYU pragma: export
#include "extensor/random.h"           // IWYU pragma: export
#include "extensor/reduction.h"        // IWYU pragma: export
#include "extensor/second_order.h"     // IWYU pragma: export
#include "extensor/softmax.h"          // IWYU pragma: export
#include "extensor/sorting.h"          // IWYU pragma: export
#include "extensor/tensor.h"           // IWYU pragma: export
#include "extensor/threads.h"          // IWYU pragma: export
#include "extensor/user_ops.h"         // IWYU pragma: export
#include "extensor/version.h"          // IWYU pragma: export
