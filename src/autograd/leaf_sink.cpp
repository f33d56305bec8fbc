#include "autograd/leaf_sink.h"

#include <exception>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/check.h"

namespace extensor::autograd {

namespace {

struct Entry {
  detail::NodePointer node;  // keeps its address from being used again
  std::shared_ptr<const LeafSink> sink;
};

struct Sinks {
  std::mutex mutex;
  std::unordered_map<const detail::Node*, Entry> entries;
};

// How many there are, so that a program without sinks pays one load for each leaf.
std::atomic<int> sink_count{0};

Sinks& sinks() {
  static auto* all = new Sinks();
  return *all;
}

thread_local std::vector<std::function<void(bool)>> ends;

}  // namespace

detail::NodePointer set_leaf_sink(const char* operation, const Tensor& leaf, LeafSink sink) {
  detail::Node* node = detail::node_of(leaf.impl());
  if (node == nullptr || !node->is_leaf()) {
    throw ValueError(detail::message(operation, ": the tensor of shape ", leaf.shape(),
                                     " is not a leaf that requires a gradient"));
  }
  Sinks& all = sinks();
  const std::lock_guard lock(all.mutex);
  const auto [place, is_new] = all.entries.try_emplace(
      node, Entry{detail::NodePointer(node), std::make_shared<const LeafSink>(std::move(sink))});
  if (!is_new) {
    throw ValueError(detail::message(operation, ": the gradient of the parameter of shape ",
                                     leaf.shape(), " is taken by another object already"));
  }
  sink_count.fetch_add(1, std::memory_order_relaxed);
  return place->second.node;
}

void remove_leaf_sink(const detail::Node& leaf) {
  Entry removed;  // outlives the lock
  Sinks& all = sinks();
  const std::lock_guard lock(all.mutex);
  const auto found = all.entries.find(&leaf);
  if (found == all.entries.end()) return;
  removed = std::move(found->second);
  all.entries.erase(found);
  sink_count.fetch_sub(1, std::memory_order_relaxed);
}

std::shared_ptr<const LeafSink> find_leaf_sink(const detail::Node& leaf) {
  if (sink_count.load(std::memory_order_relaxed) == 0) return nullptr;
  Sinks& all = sinks();
  const std::lock_guard lock(all.mutex);
  const auto found = all.entries.find(&leaf);
  return found == all.entries.end() ? nullptr : found->second.sink;
}

void at_end_of_walk(std::function<void(bool)> function) { ends.push_back(std::move(function)); }

void run_end_of_walk(bool completed) {
  std::exception_ptr error;
  while (!ends.empty()) {
    const auto function = std::move(ends.back());
    ends.pop_back();
    try {
      function(completed && error == nullptr);
    } catch (...) {
      if (error == nullptr) error = std::current_exception();
    }
  }
  if (completed && error != nullptr) std::rethrow_exception(error);
}

}  // namespace extensor::autograd
