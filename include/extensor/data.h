// Training data: datasets, transforms, loading, file readers, the built-in digits.
#pragma once

#include "extensor/data/dataset.h"  // IWYU pragma: export
#include "extensor/data/digits.h"   // IWYU pragma: export
#include "extensor/data/images.h"   // IWYU pragma: export
#include "extensor/data/loader.h"   // IWYU pragma: export
#include "extensor/data/readers.h"  // IWYU pragma: export
#include "extensor/data/sampler.h"  // IWYU pragma: export
#include "extensor/data/stream.h"   // IWYU pragma: export
#include "extensor/data/table.h"    // IWYU pragma: export
#include "extensor/data/text.h"     // IWYU pragma: export
