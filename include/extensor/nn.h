// Neural networks: modules, layers, containers, losses.
#pragma once

#include "extensor/nn/activations.h"      // IWYU pragma: export
#include "extensor/nn/containers.h"       // IWYU pragma: export
#include "extensor/nn/convolution.h"      // IWYU pragma: export
#include "extensor/nn/key_value_cache.h"  // IWYU pragma: export
#include "extensor/nn/layers.h"           // IWYU pragma: export
#include "extensor/nn/losses.h"           // IWYU pragma: export
#include "extensor/nn/module.h"           // IWYU pragma: export
#include "extensor/nn/pooling.h"          // IWYU pragma: export
#include "extensor/nn/recurrent.h"        // IWYU pragma: export
#include "extensor/nn/resampling.h"       // IWYU pragma: export
#include "extensor/nn/transformer.h"      // IWYU pragma: export
