// The batches of a data loader, and a check that they do not depend on the number of workers.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "extensor/extensor.h"
#include "support/files.h"

namespace test_support {

inline std::vector<extensor::data::Batch> batches_of(extensor::data::DataLoader::Epoch epoch) {
  std::vector<extensor::data::Batch> list;
  for (const extensor::data::Batch& batch : epoch) list.push_back(batch);
  return list;
}

inline void expect_equal(const extensor::data::Batch& a, const extensor::data::Batch& b) {
  using extensor::Tensor;
  EXPECT_EQ(a.indices, b.indices);
  const std::vector<Tensor> ai = a.all_inputs(), bi = b.all_inputs();
  const std::vector<Tensor> at = a.all_targets(), bt = b.all_targets();
  ASSERT_EQ(ai.size(), bi.size());
  ASSERT_EQ(at.size(), bt.size());
  for (std::size_t k = 0; k < ai.size(); ++k) expect_same(ai[k], bi[k]);
  for (std::size_t k = 0; k < at.size(); ++k) expect_same(at[k], bt[k]);
}

// The batches are the same for 0, 1 and 3 workers, and from any batch on.
template <class Make>
void expect_reproducible(const Make& make) {
  const std::vector<extensor::data::Batch> expected = batches_of(make(0).epoch(2));
  ASSERT_GT(expected.size(), 2u);
  for (const int workers : {0, 1, 3}) {
    const extensor::data::DataLoader loader = make(workers);
    for (std::size_t first = 0; first <= expected.size(); ++first) {
      const auto rest = batches_of(loader.epoch(2, static_cast<std::int64_t>(first)));
      ASSERT_EQ(rest.size(), expected.size() - first) << workers << " workers from " << first;
      for (std::size_t k = 0; k < rest.size(); ++k) expect_equal(rest[k], expected[first + k]);
    }
  }
}

}  // namespace test_support
