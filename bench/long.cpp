// Figures that take minutes, each measured together with its baseline in the same run:
//   extensor_long pipeline MNIST_DIRECTORY    loading and augmenting, against one batch in memory
//   extensor_long files DIRECTORY             safetensors of 1 GB, against dd
//   extensor_long jpeg DIRECTORY              JPEG images in a loader with 2 workers, against two
//                                             processes of djpeg (package libjpeg-turbo-progs)
#include <extensor/extensor.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

using namespace extensor;

namespace {

double seconds_of(const auto& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> list) {
  std::ranges::sort(list);
  return list[list.size() / 2];
}

// ---- the pipeline

// A training run with its own model; runs differ in the source of their batches.
class Training {
 public:
  explicit Training(const data::DataLoader& loader) : loader_(loader), batches_(loader.epoch(0)) {
    rate();
  }
  // Steps per second. Short, so that other load on the machine affects all runs alike.
  double rate() {
    constexpr int steps = 40;
    return steps / seconds_of([&] {
             for (int k = 0; k < steps; ++k) step();
           });
  }

 private:
  void step() {
    std::optional<data::Batch> batch = batches_.next();
    if (!batch) {
      batches_ = loader_.epoch(++epoch_);
      batch = batches_.next();
    }
    optimizer_.zero_grad();
    const Tensor loss = cross_entropy(model_(batch->inputs), batch->targets);
    loss.backward();
    optimizer_.step();
  }

  const data::DataLoader& loader_;
  data::DataLoader::Epoch batches_;
  std::int64_t epoch_ = 0;
  models::LeNet model_;
  optim::AdamW optimizer_{model_.parameters(), {.lr = 1e-3}};
};

// Always returns the same batch.
class OneBatch final : public data::Dataset {
 public:
  OneBatch(data::Batch batch, std::int64_t size) : batch_(std::move(batch)), size_(size) {}
  std::int64_t size() const override { return size_; }
  data::Batch batch(const data::Request&) const override { return batch_; }

 private:
  data::Batch batch_;
  std::int64_t size_;
};

void pipeline(const char* directory) {
  const data::LabelledImages images = data::load_mnist(directory).train;
  const std::vector<data::Transform> plain{data::normalize({0.1307}, {0.3081})};
  const std::vector<data::Transform> moved{data::random_crop(2), plain[0]};
  const auto options = [](int workers) {
    return data::DataLoaderOptions{.batch_size = 64, .drop_last = true, .workers = workers};
  };
  const data::DataLoader loaded(data::ImageDataset(images, plain), options(0));
  struct Source {
    const char* name;
    data::DataLoader loader;
    std::optional<Training> training = std::nullopt;
    std::vector<double> rates = {}, parts = {};
  };
  Source sources[] = {
      {"one cached batch",
       data::DataLoader(OneBatch(*loaded.epoch(0).next(), images.labels.numel()),
                        {.batch_size = 64, .shuffle = false, .drop_last = true})},
      {"loaded", loaded},
      {"and augmented", data::DataLoader(data::ImageDataset(images, moved), options(0))},
      {"the same by 2 workers", data::DataLoader(data::ImageDataset(images, moved), options(2))}};
  for (Source& source : sources) source.training.emplace(source.loader);
  constexpr int rounds = 300;
  for (int round = 0; round < rounds; ++round) {
    for (Source& source : sources) {
      source.rates.push_back(source.training->rate());
      source.parts.push_back(source.rates.back() / sources[0].rates.back());
    }
  }
  std::printf("LeNet on MNIST, batches of 64, steps a second (medians of %d rounds):\n", rounds);
  for (const Source& source : sources) {
    std::printf("  %-22s %8.1f  %6.1f %%\n", source.name, median(source.rates),
                100 * median(source.parts));
  }
}

// ---- files

double dd_seconds(const std::string& arguments) {
  const std::string command = "dd " + arguments + " status=none";
  return seconds_of([&] {
    if (std::system(command.c_str()) != 0) std::exit(1);
  });
}

// The file is on the disk only after this.
void forget(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY);
  if (file < 0 || fdatasync(file) != 0 || posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) != 0) {
    std::exit(1);
  }
  close(file);
}

// Alternates ExTensor and dd, round by round.
struct Race {
  const char* what;
  std::vector<double> ours = {}, dd = {};

  void print(double bytes) const {
    std::printf("  %-46s %6.2f GB/s, dd %6.2f GB/s: %6.1f %%\n", what, bytes / median(ours) / 1e9,
                bytes / median(dd) / 1e9, 100 * median(dd) / median(ours));
  }
};

void files(const std::string& directory) {
  const std::string ours = directory + "/extensor_long.safetensors",
                    theirs = directory + "/extensor_long.dd";
  constexpr std::int64_t part = std::int64_t{64} << 20;
  NamedTensors tensors;
  for (int k = 0; k < 4; ++k) {
    tensors.emplace_back("part." + std::to_string(k), rand({part}));
  }
  const double bytes = 4.0 * 4.0 * static_cast<double>(part);
  const auto load = [&] { return seconds_of([&] { load_safetensors(ours); }); };
  const std::string read_ours = "if=" + ours + " of=/dev/null";
  Race write{.what = "write, fsync, rename"}, cold{.what = "read from the disk"};
  Race kept{.what = "read from the system's cache (dd bs=2G keeps it)"};
  Race dropped{.what = "the same (dd bs=4M forgets it)"};
  std::vector<double> opened;
  save_safetensors(ours, tensors);
  for (int round = 0; round < 5; ++round) {
    // The same as ExTensor: from memory (a file in the page cache) to a new file that replaces the
    // old one.
    const std::string fresh = theirs + ".new";
    write.dd.push_back(dd_seconds("if=" + ours + " of=" + fresh + " bs=4M conv=fsync"));
    std::rename(fresh.c_str(), theirs.c_str());
    write.ours.push_back(seconds_of([&] { save_safetensors(ours, tensors); }));
    forget(ours);
    cold.dd.push_back(dd_seconds(read_ours + " bs=4M"));
    forget(ours);
    cold.ours.push_back(load());
    dropped.dd.push_back(dd_seconds(read_ours + " bs=4M"));
    kept.dd.push_back(dd_seconds(read_ours + " bs=2G"));
    kept.ours.push_back(load());
    opened.push_back(seconds_of([&] { load_safetensors(ours, {.mmap = true}); }));
  }
  dropped.ours = kept.ours;
  std::remove(ours.c_str());
  std::remove(theirs.c_str());
  std::printf("safetensors of %.2f GB (medians of 5 rounds):\n", bytes / 1e9);
  for (const Race* race : {&write, &cold, &kept, &dropped}) race->print(bytes);
  std::printf("  %-46s %6.2f ms\n", "mmap, opened in", 1e3 * median(opened));
}

// ---- JPEG images

void run_or_exit(const std::string& command) {
  if (std::system(command.c_str()) != 0) {
    std::fprintf(stderr, "failed: %s\n", command.c_str());
    std::exit(1);
  }
}

// Photographs have smooth parts, edges and noise; so has this image of 3 megapixels.
void write_image(const std::string& path, int number) {
  constexpr int width = 2048, height = 1536;
  std::vector<unsigned char> pixels;
  pixels.reserve(3 * width * height);
  std::uint32_t state = 1 + static_cast<std::uint32_t>(number);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      state = state * 1664525 + 1013904223;
      const int edge = ((x + 40 * number) / 97 + y / 61) % 2 == 0 ? 40 : 0;
      const int noise = static_cast<int>(state >> 28);
      for (const int base : {x / 16, y / 12, (x + y) / 24}) {
        pixels.push_back(static_cast<unsigned char>(std::min(255, base + edge + noise)));
      }
    }
  }
  std::FILE* pipe = popen(("cjpeg -quality 85 -outfile " + path).c_str(), "w");
  if (pipe == nullptr) std::exit(1);
  std::fprintf(pipe, "P6 %d %d 255\n", width, height);
  std::fwrite(pixels.data(), 1, pixels.size(), pipe);
  if (pclose(pipe) != 0) std::exit(1);
}

void jpeg(const std::string& directory) {
  constexpr int count = 24, rounds = 9;
  std::vector<std::string> paths;
  for (int k = 0; k < count; ++k) {
    paths.push_back(directory + "/extensor_long_" + std::to_string(10 + k) + ".jpg");
    write_image(paths.back(), k);
  }
  const data::DataLoader loader(
      data::FunctionDataset(
          count,
          [&](std::int64_t k, data::Draws&) {
            return data::Example{data::load_image(paths[static_cast<std::size_t>(k)]), scalar(k)};
          }),
      {.batch_size = 1, .workers = 2});
  const std::string command =
      "ls " + directory + "/extensor_long_*.jpg | xargs -P 2 -I{} djpeg -outfile /dev/null {}";
  std::vector<double> ours, theirs;
  for (int round = 0; round < rounds; ++round) {
    ours.push_back(seconds_of([&] {
      for (const data::Batch& batch : loader.epoch(round)) {
        if (batch.inputs.size(-1) != 2048) std::exit(1);
      }
    }));
    theirs.push_back(seconds_of([&] { run_or_exit(command); }));
  }
  std::printf("JPEG images of 3 megapixels a second (medians of %d rounds):\n", rounds);
  std::printf("  loader with 2 workers %6.1f, two processes of djpeg %6.1f: %.2f x\n",
              count / median(ours), count / median(theirs), median(theirs) / median(ours));
  for (const std::string& path : paths) std::remove(path.c_str());
}

}  // namespace

int main(int count, char** words) {
  if (count == 3 && std::strcmp(words[1], "pipeline") == 0) {
    pipeline(words[2]);
  } else if (count == 3 && std::strcmp(words[1], "files") == 0) {
    files(words[2]);
  } else if (count == 3 && std::strcmp(words[1], "jpeg") == 0) {
    jpeg(words[2]);
  } else {
    std::fputs("extensor_long pipeline MNIST_DIRECTORY | files DIRECTORY | jpeg DIRECTORY\n",
               stderr);
    return 2;
  }
}
