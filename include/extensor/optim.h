// Training: optimizers, learning rate schedules, clipping of gradients, averages of weights.
#pragma once

#include "extensor/optim/clipping.h"        // IWYU pragma: export
#include "extensor/optim/grad_scaler.h"     // IWYU pragma: export
#include "extensor/optim/lbfgs.h"           // IWYU pragma: export
#include "extensor/optim/moving_average.h"  // IWYU pragma: export
#include "extensor/optim/optimizer.h"       // IWYU pragma: export
#include "extensor/optim/schedulers.h"      // IWYU pragma: export
#include "extensor/optim/state_dict.h"      // IWYU pragma: export
