// What goes with training: how good a model is, and what a run leaves behind.
#pragma once

#include "extensor/train/event_file.h"  // IWYU pragma: export
#include "extensor/train/metrics.h"     // IWYU pragma: export
