// Memory that the caller owns, wrapped so that tensors share it like any other storage.
#include "extensor/storage.h"

namespace extensor {

namespace {

struct WrappedStorage : Storage {
  void (*give_back)(void*) = nullptr;
};

void release_wrapped(Storage* storage) {
  auto* wrapped = static_cast<WrappedStorage*>(storage);
  if (wrapped->give_back != nullptr) wrapped->give_back(wrapped->context);
  delete wrapped;
}

}  // namespace

StoragePointer wrap_storage(void* data, std::size_t bytes, Device device, void (*release)(void*),
                            void* context) {
  auto* storage = new WrappedStorage;
  storage->device = device;
  storage->data = data;
  storage->bytes = bytes;
  storage->release = release_wrapped;
  storage->context = context;
  storage->give_back = release;
  return StoragePointer(storage);
}

}  // namespace extensor
