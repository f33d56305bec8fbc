// Layout planning: dropped, merged and chosen dimensions, and that a plan visits exactly the
// elements of a naive loop over the shape. Sizes and strides only, no memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "backend/plan/elementwise_plan.h"
#include "backend/plan/reduce_plan.h"

namespace {

using namespace extensor;
using plan::ElementwisePlan;
using plan::Layout;
using plan::ReducePlan;

ElementwisePlan elementwise(const Shape& shape, const std::vector<Strides>& strides) {
  const std::int64_t* pointers[plan::max_operands] = {};
  for (std::size_t k = 0; k < strides.size(); ++k) pointers[k] = strides[k].data();
  return plan::plan_elementwise(shape, static_cast<int>(strides.size()), pointers);
}

ReducePlan reduction(const Shape& shape, const Strides& strides, std::vector<int> axes,
                     bool ordered = false) {
  bool reduced[max_rank] = {};
  for (int axis : axes) reduced[axis] = true;
  return plan::plan_reduce(shape, strides.data(), reduced, ordered);
}

Strides dense(const Shape& shape) {
  Strides strides(shape.size(), 1);
  for (std::size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

// Calls visit with the offset of every operand at every index of a shape, in row-major order.
using Offsets = std::array<std::int64_t, plan::max_operands>;
void walk(const Dims& sizes, const Dims* const* strides, int operands,
          const std::function<void(const Offsets&)>& visit) {
  std::vector<std::int64_t> index(sizes.size(), 0);
  Offsets offsets{};
  for (;;) {
    visit(offsets);
    std::size_t d = sizes.size();
    for (;; --d) {
      if (d == 0) return;
      const bool more = ++index[d - 1] < sizes[d - 1];
      const std::int64_t steps = more ? 1 : 1 - sizes[d - 1];
      for (int k = 0; k < operands; ++k) offsets[k] += steps * (*strides[k])[d - 1];
      if (more) break;
      index[d - 1] = 0;
    }
  }
}

std::vector<Offsets> walked(const Dims& sizes, const Dims* strides, int operands) {
  const Dims* pointers[plan::max_operands] = {};
  for (int k = 0; k < operands; ++k) pointers[k] = strides + k;
  std::vector<Offsets> result;
  walk(sizes, pointers, operands, [&](const Offsets& offsets) { result.push_back(offsets); });
  return result;
}

// ---- elementwise --------------------------------------------------------------------------------

TEST(ElementwisePlanTest, DenseOperandsBecomeOneDimension) {
  const Shape shape{2, 3, 4};
  const ElementwisePlan plan = elementwise(shape, {dense(shape), dense(shape), dense(shape)});
  EXPECT_EQ(plan.layout, Layout::contiguous);
  EXPECT_EQ(plan.sizes, (Dims{24}));
  for (int k = 0; k < 3; ++k) EXPECT_EQ(plan.strides[k], (Dims{1}));
}

TEST(ElementwisePlanTest, ZeroDimensionsAreOneElement) {
  const ElementwisePlan plan = elementwise({}, {{}, {}});
  EXPECT_EQ(plan.layout, Layout::contiguous);
  EXPECT_EQ(plan.sizes, (Dims{1}));
  EXPECT_EQ(elementwise({1, 1, 1}, {{7, 0, -3}, {0, 0, 5}}).sizes, (Dims{1}));
}

TEST(ElementwisePlanTest, UnitDimensionsAreDroppedWhateverTheirStrides) {
  const ElementwisePlan plan = elementwise({1, 3, 1, 4, 1}, {{99, 4, -7, 1, 0}, {0, 4, 5, 1, 8}});
  EXPECT_EQ(plan.layout, Layout::contiguous);
  EXPECT_EQ(plan.sizes, (Dims{12}));
}

TEST(ElementwisePlanTest, AScalarOperandStaysContiguous) {
  const ElementwisePlan plan = elementwise({3, 4}, {{4, 1}, {0, 0}, {4, 1}});
  EXPECT_EQ(plan.layout, Layout::contiguous);
  EXPECT_EQ(plan.sizes, (Dims{12}));
  EXPECT_EQ(plan.strides[1], (Dims{0}));
}

TEST(ElementwisePlanTest, AllTransposedAlikeIsContiguous) {
  // Result and input are both column-major: in memory order no transpose is needed.
  const ElementwisePlan plan = elementwise({3, 4}, {{1, 3}, {1, 3}});
  EXPECT_EQ(plan.layout, Layout::contiguous);
  EXPECT_EQ(plan.sizes, (Dims{12}));
}

TEST(ElementwisePlanTest, OrderedByTheResultsStrides) {
  const ElementwisePlan plan = elementwise({2, 3, 4}, {{1, 20, 2}, {100, 10, 1}});
  EXPECT_EQ(plan.sizes, (Dims{3, 4, 2}));
  EXPECT_EQ(plan.strides[0], (Dims{20, 2, 1}));
  EXPECT_EQ(plan.strides[1], (Dims{10, 1, 100}));
  // By magnitude: a reversed result is still written in memory order.
  const ElementwisePlan reversed = elementwise({2, 3}, {{-1, -20}, {3, 1}});
  EXPECT_EQ(reversed.sizes, (Dims{3, 2}));
  EXPECT_EQ(reversed.strides[0], (Dims{-20, -1}));
}

TEST(ElementwisePlanTest, MergesOnlyWhatEveryOperandAllows) {
  // The row is repeated for each i: the outer dimension cannot merge into the inner one.
  const ElementwisePlan rows = elementwise({100, 200}, {{200, 1}, {200, 1}, {0, 1}});
  EXPECT_EQ(rows.layout, Layout::rows);
  EXPECT_EQ(rows.sizes, (Dims{100, 200}));
  EXPECT_EQ(rows.strides[2], (Dims{0, 1}));
  // One of three dimensions merges.
  const ElementwisePlan some = elementwise({5, 6, 70}, {{420, 70, 1}, {0, 70, 1}});
  EXPECT_EQ(some.sizes, (Dims{5, 420}));
  EXPECT_EQ(some.strides[0], (Dims{420, 1}));
  EXPECT_EQ(some.strides[1], (Dims{0, 1}));
  // Dimensions of stride 0 next to each other merge.
  const ElementwisePlan repeated = elementwise({5, 6, 70}, {{420, 70, 1}, {0, 0, 1}});
  EXPECT_EQ(repeated.sizes, (Dims{30, 70}));
  EXPECT_EQ(repeated.strides[1], (Dims{0, 1}));
}

TEST(ElementwisePlanTest, NegativeStridesMergeAndAreRows) {
  // A tensor reversed along both axes is one reversed row.
  const ElementwisePlan plan = elementwise({3, 4}, {{4, 1}, {-4, -1}});
  EXPECT_EQ(plan.layout, Layout::rows);
  EXPECT_EQ(plan.sizes, (Dims{12}));
  EXPECT_EQ(plan.strides[1], (Dims{-1}));
  // Reversed along one axis only, it is not.
  EXPECT_EQ(elementwise({3, 4}, {{4, 1}, {-4, 1}}).sizes, (Dims{3, 4}));
}

TEST(ElementwisePlanTest, LongRowsShortRowsAndTransposes) {
  EXPECT_EQ(elementwise({10, 64}, {{64, 1}, {0, 1}}).layout, Layout::rows);
  EXPECT_EQ(elementwise({10, 63}, {{63, 1}, {0, 1}}).layout, Layout::gathered);
  EXPECT_EQ(elementwise({1000}, {{1}, {2}}).layout, Layout::rows);
  EXPECT_EQ(elementwise({1000}, {{3}, {1}}).layout, Layout::rows);
  EXPECT_EQ(elementwise({20, 30}, {{30, 1}, {1, 20}}).layout, Layout::tiled);
  EXPECT_EQ(elementwise({20, 30}, {{30, 1}, {-1, 20}}).layout, Layout::tiled);
  EXPECT_EQ(elementwise({20, 30}, {{30, 1}, {30, 1}, {1, 20}}).layout, Layout::tiled);
  // Too thin for a tile, along either side.
  EXPECT_NE(elementwise({7, 300}, {{300, 1}, {1, 7}}).layout, Layout::tiled);
  EXPECT_NE(elementwise({300, 7}, {{7, 1}, {1, 300}}).layout, Layout::tiled);
  // The result must be dense for a tile to be worthwhile.
  EXPECT_NE(elementwise({20, 30}, {{60, 2}, {1, 20}}).layout, Layout::tiled);
}

TEST(ElementwisePlanTest, TheDenseDimensionOfATransposeIsSecondInnermost) {
  // x of [20, 30, 40] seen through transpose({2, 0, 1}): dense along the result's outermost axis.
  const ElementwisePlan plan = elementwise({40, 20, 30}, {{600, 30, 1}, {1, 1200, 40}});
  EXPECT_EQ(plan.layout, Layout::tiled);
  ASSERT_GE(plan.sizes.size(), 2U);
  const std::size_t inner = plan.sizes.size() - 1;
  EXPECT_EQ(plan.strides[0][inner], 1);
  EXPECT_EQ(plan.strides[1][inner - 1], 1);
}

TEST(ElementwisePlanTest, SixtyFourDimensions) {
  const Shape twos(40, 2);
  EXPECT_EQ(elementwise(twos, {dense(twos), dense(twos)}).sizes, (Dims{std::int64_t{1} << 40}));
  Shape shape(64, 1);
  shape[3] = 2;
  shape[31] = 3;
  shape[63] = 5;
  const Strides strides = dense(shape);
  EXPECT_EQ(elementwise(shape, {strides, strides}).sizes, (Dims{30}));
  Strides broken = strides;
  broken[31] = 0;
  const ElementwisePlan plan = elementwise(shape, {strides, broken});
  EXPECT_EQ(plan.sizes, (Dims{2, 3, 5}));
  EXPECT_EQ(plan.strides[1], (Dims{15, 0, 1}));
  // No two of 64 dimensions merge: strides grow faster than sizes.
  Strides apart(64, 1);
  Shape pairs(64, 1);
  for (std::size_t d = 52; d < 64; ++d) pairs[d] = 2;
  for (std::size_t d = 63; d-- > 52;) apart[d] = apart[d + 1] * 3;
  const ElementwisePlan unmerged = elementwise(pairs, {apart, apart});
  EXPECT_EQ(unmerged.sizes, Dims(12, 2));
}

// A random layout of `shape`: dense in a random order of axes, with gaps, reversals and, for
// inputs, repetition.
Strides random_strides(std::mt19937& random, const Shape& shape, bool may_repeat) {
  std::vector<std::size_t> order(shape.size());
  for (std::size_t d = 0; d < order.size(); ++d) order[d] = d;
  if (random() % 2 == 0) std::shuffle(order.begin(), order.end(), random);
  Strides strides(shape.size(), 0);
  std::int64_t step = random() % 4 == 0 ? 2 : 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = step;
    step *= shape[order[i]];
    if (random() % 4 == 0) step += 3;
    if (random() % 5 == 0) strides[order[i]] = -strides[order[i]];
    if (may_repeat && random() % 4 == 0) strides[order[i]] = 0;
  }
  return strides;
}

TEST(ElementwisePlanTest, VisitsExactlyWhatTheNaiveWalkVisits) {
  std::mt19937 random(20240101);
  int seen[4] = {};
  for (int round = 0; round < 3000; ++round) {
    Shape shape;
    const std::size_t rank = random() % 6;
    std::int64_t room = 4000;
    for (std::size_t d = 0; d < rank; ++d) {
      const std::int64_t most = std::min<std::int64_t>(random() % 4 == 0 ? 90 : 9, room);
      shape.push_back(1 + static_cast<std::int64_t>(random()) % most);
      room = std::max<std::int64_t>(1, room / shape.back());
    }
    const int operands = 1 + static_cast<int>(random() % 4);
    std::vector<Strides> strides;
    for (int k = 0; k < operands; ++k) strides.push_back(random_strides(random, shape, k > 0));
    const ElementwisePlan plan = elementwise(shape, strides);
    ++seen[static_cast<int>(plan.layout)];

    ASSERT_GE(plan.sizes.size(), 1U);
    if (plan.sizes.size() > 1) {
      for (std::int64_t size : plan.sizes) ASSERT_GT(size, 1);
    }
    auto naive = walked(shape, strides.data(), operands);
    auto planned = walked(plan.sizes, plan.strides, operands);
    std::sort(naive.begin(), naive.end());
    std::sort(planned.begin(), planned.end());
    ASSERT_EQ(naive, planned) << "round " << round << ", shape " << shape;

    if (plan.layout == Layout::contiguous) {
      ASSERT_EQ(plan.sizes.size(), 1U);
      for (int k = 0; k < operands; ++k) {
        const std::int64_t stride = plan.strides[k][0];
        ASSERT_TRUE(stride == 1 || (stride == 0 && k > 0));
      }
    }
    if (plan.layout == Layout::tiled) {
      ASSERT_EQ(plan.strides[0].back(), 1);
      bool dense_input = false;
      for (int k = 1; k < operands; ++k) {
        dense_input |= std::abs(plan.strides[k][plan.sizes.size() - 2]) == 1;
      }
      ASSERT_TRUE(dense_input);
    }
  }
  for (int count : seen) EXPECT_GT(count, 20);  // every path was planned
}

// ---- reductions ---------------------------------------------------------------------------------

TEST(ReducePlanTest, EverythingIsOneDenseRow) {
  const ReducePlan plan = reduction({2, 3, 4}, {12, 4, 1}, {0, 1, 2});
  EXPECT_FALSE(plan.columns);
  EXPECT_TRUE(plan.kept_sizes.empty());
  EXPECT_EQ(plan.reduced_sizes, (Dims{24}));
  EXPECT_EQ(plan.reduced_strides, (Dims{1}));
}

TEST(ReducePlanTest, NothingReducedIsARowOfOne) {
  const ReducePlan plan = reduction({2, 3}, {3, 1}, {});
  EXPECT_EQ(plan.kept_sizes, (Dims{6}));
  EXPECT_EQ(plan.reduced_sizes, (Dims{1}));
  const ReducePlan scalar = reduction({}, {}, {});
  EXPECT_TRUE(scalar.kept_sizes.empty());
  EXPECT_EQ(scalar.reduced_sizes, (Dims{1}));
}

TEST(ReducePlanTest, LastAxisIsRowsAndFirstAxisIsColumns) {
  const ReducePlan rows = reduction({5, 7}, {7, 1}, {1});
  EXPECT_FALSE(rows.columns);
  EXPECT_EQ(rows.kept_sizes, (Dims{5}));
  EXPECT_EQ(rows.kept_strides, (Dims{7}));
  EXPECT_EQ(rows.kept_out_strides, (Dims{1}));
  EXPECT_EQ(rows.reduced_strides, (Dims{1}));

  const ReducePlan columns = reduction({5, 7}, {7, 1}, {0});
  EXPECT_TRUE(columns.columns);
  EXPECT_EQ(columns.kept_sizes, (Dims{7}));
  EXPECT_EQ(columns.kept_strides, (Dims{1}));
  EXPECT_EQ(columns.reduced_sizes, (Dims{5}));
  EXPECT_EQ(columns.reduced_strides, (Dims{7}));
}

TEST(ReducePlanTest, ATransposedInputSwapsTheTwo) {
  EXPECT_TRUE(reduction({7, 5}, {1, 7}, {1}).columns);
  EXPECT_FALSE(reduction({7, 5}, {1, 7}, {0}).columns);
  // Dense along neither: each result gathers.
  EXPECT_FALSE(reduction({7, 5}, {10, 2}, {0}).columns);
  EXPECT_FALSE(reduction({7, 5}, {5, -1}, {0}).columns);
  EXPECT_FALSE(reduction({7, 5}, {0, 0}, {1}).columns);
}

TEST(ReducePlanTest, OuterAndInnerAxesAroundAKeptOne) {
  const ReducePlan plan = reduction({3, 4, 5}, {20, 5, 1}, {0, 2});
  EXPECT_EQ(plan.kept_sizes, (Dims{4}));
  EXPECT_EQ(plan.kept_strides, (Dims{5}));
  EXPECT_EQ(plan.reduced_sizes, (Dims{3, 5}));
  EXPECT_EQ(plan.reduced_strides, (Dims{20, 1}));
  // Kept axes on both sides: the result's strides follow the kept axes alone.
  const ReducePlan middle = reduction({3, 4, 5}, {20, 5, 1}, {1});
  EXPECT_TRUE(middle.columns);
  EXPECT_EQ(middle.kept_sizes, (Dims{3, 5}));
  EXPECT_EQ(middle.kept_strides, (Dims{20, 1}));
  EXPECT_EQ(middle.kept_out_strides, (Dims{5, 1}));
}

TEST(ReducePlanTest, OrderedKeepsRowMajorPositions) {
  // A transposed matrix, reduced completely: sorting by stride is faster, but changes position 1.
  EXPECT_EQ(reduction({4, 3}, {1, 4}, {0, 1}).reduced_sizes, (Dims{12}));
  const ReducePlan ordered = reduction({4, 3}, {1, 4}, {0, 1}, true);
  EXPECT_EQ(ordered.reduced_sizes, (Dims{4, 3}));
  EXPECT_EQ(ordered.reduced_strides, (Dims{1, 4}));
  EXPECT_EQ(reduction({4, 3}, {3, 1}, {0, 1}, true).reduced_sizes, (Dims{12}));
}

TEST(ReducePlanTest, SixtyFourDimensions) {
  const Shape shape(40, 2);
  const ReducePlan plan = reduction(shape, dense(shape), {0, 1, 2, 39});
  EXPECT_EQ(plan.kept_sizes, (Dims{std::int64_t{1} << 36}));
  EXPECT_EQ(plan.reduced_sizes, (Dims{8, 2}));
  std::vector<int> every;
  for (int d = 0; d < 64; ++d) every.push_back(d);
  EXPECT_EQ(reduction(Shape(64, 1), Strides(64, 5), every).reduced_sizes, (Dims{1}));
}

TEST(ReducePlanTest, GathersExactlyWhatTheNaiveWalkGathers) {
  std::mt19937 random(77);
  int columns = 0, rows = 0;
  for (int round = 0; round < 3000; ++round) {
    Shape shape;
    const std::size_t rank = random() % 6;
    for (std::size_t d = 0; d < rank; ++d) {
      shape.push_back(1 + static_cast<std::int64_t>(random() % 6));
    }
    const Strides strides = random_strides(random, shape, true);
    std::vector<int> axes;
    bool reduced[max_rank] = {};
    for (std::size_t d = 0; d < rank; ++d) {
      reduced[d] = random() % 2 == 0;
      if (reduced[d]) axes.push_back(static_cast<int>(d));
    }
    const bool ordered = random() % 2 == 0;
    const ReducePlan plan = reduction(shape, strides, axes, ordered);
    (plan.columns ? columns : rows) += 1;
    if (plan.columns) {
      ASSERT_EQ(plan.kept_strides.back(), 1);
    }

    // Both as lists of input offsets per position of the dense result.
    std::int64_t results = 1;
    Strides out(rank, 0);
    for (std::size_t d = rank; d-- > 0;) {
      if (reduced[d]) continue;
      out[d] = results;
      results *= shape[d];
    }
    std::vector<std::vector<std::int64_t>> naive(static_cast<std::size_t>(results));
    const Dims* given[] = {&strides, &out};
    walk(shape, given, 2,
         [&](const Offsets& at) { naive[static_cast<std::size_t>(at[1])].push_back(at[0]); });
    std::vector<std::vector<std::int64_t>> planned(static_cast<std::size_t>(results));
    const Dims* kept[] = {&plan.kept_strides, &plan.kept_out_strides};
    const Dims* gone[] = {&plan.reduced_strides};
    walk(plan.kept_sizes, kept, 2, [&](const Offsets& at) {
      walk(plan.reduced_sizes, gone, 1, [&](const Offsets& inner) {
        planned[static_cast<std::size_t>(at[1])].push_back(at[0] + inner[0]);
      });
    });
    for (std::size_t i = 0; i < naive.size(); ++i) {
      if (!ordered) {  // then the order is free
        std::sort(naive[i].begin(), naive[i].end());
        std::sort(planned[i].begin(), planned[i].end());
      }
    }
    ASSERT_EQ(naive, planned) << "round " << round << ", shape " << shape;
  }
  EXPECT_GT(columns, 100);
  EXPECT_GT(rows, 100);
}

}  // namespace
