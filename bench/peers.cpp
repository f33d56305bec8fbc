#include "peers.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>

namespace extensor::bench {

std::vector<Peer*> load_peers() {
  std::vector<Peer*> peers;
  for (const std::string name : {"torch", "onednn", "openblas", "libxsmm"}) {
    const std::string path = EXTENSOR_BENCH_PEERS "/" + name + ".so";
    if (access(path.c_str(), R_OK) != 0) {
      std::fprintf(stderr, "bench: no %s here, its column stays empty\n", name.c_str());
      continue;
    }
    // Local scope: PyTorch's own copies of oneDNN and BLAS must not be mixed up with the others.
    // libgomp is loaded already, so all peers share it.
    void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    void* entry = module != nullptr ? dlsym(module, "extensor_bench_peer") : nullptr;
    if (entry == nullptr) {
      std::fprintf(stderr, "bench: %s does not load, its column stays empty: %s\n", name.c_str(),
                   dlerror());
      continue;
    }
    peers.push_back(reinterpret_cast<decltype(&extensor_bench_peer)>(entry)());
  }
  return peers;
}

}  // namespace extensor::bench
