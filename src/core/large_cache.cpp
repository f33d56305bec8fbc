#include "core/large_cache.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

#include "core/sanitizer.h"

namespace extensor::detail {

namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;
constexpr std::size_t huge_page_threshold = std::size_t{4} << 20;

std::size_t mapped_bytes(std::size_t capacity) {
  static const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return (capacity + header_bytes + page - 1) / page * page;
}

}  // namespace

void* map_large_block(std::size_t capacity) {
  const std::size_t bytes = mapped_bytes(capacity);
  const bool huge = capacity >= huge_page_threshold;
  // Only whole aligned 2 MiB ranges become huge pages: map more than needed and unmap both ends.
  const std::size_t asked = huge ? bytes + huge_page : bytes;
  void* mapped = mmap(nullptr, asked, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  if (!huge) return mapped;
  auto* start = static_cast<std::byte*>(mapped);
  const std::size_t behind = reinterpret_cast<std::uintptr_t>(start) % huge_page;
  const std::size_t head = behind == 0 ? 0 : huge_page - behind;
  if (head != 0) munmap(start, head);
  if (head != huge_page) munmap(start + head + bytes, huge_page - head);
  madvise(start + head, bytes, MADV_HUGEPAGE);  // only a hint: a kernel without them is fine
  return start + head;
}

void unmap_large_block(void* block, std::size_t capacity) {
  // Later mappings at this address know nothing of the poison.
  unpoison(block, header_bytes + capacity);
  munmap(block, mapped_bytes(capacity));
}

void* LargeCache::take(std::size_t capacity, std::size_t& found) {
  const int first = large_class(capacity);
  // Two classes up is at most a quarter more: fewer misses for little waste.
  for (int candidate = first; candidate <= first + 2 && candidate < large_class_count;
       ++candidate) {
    Node* node = lists_[static_cast<std::size_t>(candidate)];
    if (node == nullptr) continue;
    remove(node);
    found = large_class_bytes(candidate);
    return node;
  }
  return nullptr;
}

void LargeCache::put(void* block, std::size_t capacity) {
  auto* node = static_cast<Node*>(block);
  const int size_class = large_class(capacity);
  Node*& list = lists_[static_cast<std::size_t>(size_class)];
  *node = {list, nullptr, nullptr, newest_, size_class};
  if (list != nullptr) list->previous = node;
  list = node;
  if (newest_ != nullptr) newest_->newer = node;
  newest_ = node;
  if (oldest_ == nullptr) oldest_ = node;
  bytes_ += capacity;
}

void* LargeCache::take_oldest(std::size_t& found) {
  Node* node = oldest_;
  if (node == nullptr) return nullptr;
  found = large_class_bytes(node->size_class);
  remove(node);
  return node;
}

void LargeCache::remove(Node* node) {
  Node*& list = lists_[static_cast<std::size_t>(node->size_class)];
  (node->previous != nullptr ? node->previous->next : list) = node->next;
  if (node->next != nullptr) node->next->previous = node->previous;
  (node->newer != nullptr ? node->newer->older : newest_) = node->older;
  (node->older != nullptr ? node->older->newer : oldest_) = node->newer;
  bytes_ -= large_class_bytes(node->size_class);
}

}  // namespace extensor::detail
