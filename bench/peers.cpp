#include "peers.h"

#include <dlfcn.h>
#include <unistd.h>

#include <stdexcept>
#include <utility>

namespace extensor::bench {

namespace {

// The name and the module of each, in the order of the table's columns.
const std::pair<std::string, std::string> peers[] = {
    {"PyTorch", "torch"}, {"oneDNN", "onednn"}, {"OpenBLAS", "openblas"}, {"libxsmm", "libxsmm"}};

}  // namespace

std::vector<std::string> peer_names() {
  std::vector<std::string> names;
  for (const auto& [name, module] : peers) names.push_back(name);
  return names;
}

Peer* load_peer(const std::string& name, int threads) {
  for (const auto& [peer_name, file] : peers) {
    if (peer_name != name) continue;
    const std::string path = EXTENSOR_BENCH_PEERS "/" + file + ".so";
    if (access(path.c_str(), R_OK) != 0) throw std::runtime_error("it was not built");
    void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    void* entry = module != nullptr ? dlsym(module, "extensor_bench_peer") : nullptr;
    if (entry == nullptr) throw std::runtime_error(dlerror());
    Peer* peer = reinterpret_cast<decltype(&extensor_bench_peer)>(entry)();
    peer->set_threads(threads);
    return peer;
  }
  return nullptr;
}

}  // namespace extensor::bench
