// Training: a trainer with callbacks, metrics, checkpoints, logs and reports.
#pragma once

#include "extensor/train/callbacks.h"        // IWYU pragma: export
#include "extensor/train/checkpoint.h"       // IWYU pragma: export
#include "extensor/train/evaluation.h"       // IWYU pragma: export
#include "extensor/train/event_file.h"       // IWYU pragma: export
#include "extensor/train/metrics.h"          // IWYU pragma: export
#include "extensor/train/model_reference.h"  // IWYU pragma: export
#include "extensor/train/report.h"           // IWYU pragma: export
#include "extensor/train/trainer.h"          // IWYU pragma: export
