// Training on several processes: collectives and data-parallel training.
#pragma once

#include "extensor/distributed/communicator.h"     // IWYU pragma: export
#include "extensor/distributed/data_parallel.h"    // IWYU pragma: export
#include "extensor/distributed/sync_batch_norm.h"  // IWYU pragma: export
