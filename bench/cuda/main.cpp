// Times work on a CUDA device, and prints one JSON object per line: the name of the line, the
// milliseconds of one repetition (the best of several rounds), and the bandwidth, the rate or the
// number of operations per second where the line has one. lines_torch.py measures the same lines.
//   extensor_cuda_bench [part of a name]...
#include <extensor/cuda.h>
#include <extensor/extensor.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace {

using namespace extensor;

std::vector<std::string> parts;  // of the names of the lines that are asked for; none: all

bool is_asked(const std::string& name) {
  return parts.empty() || std::any_of(parts.begin(), parts.end(), [&](const std::string& part) {
           return name.find(part) != std::string::npos;
         });
}

double milliseconds(const std::function<void()>& work, int repetitions) {
  const auto start = std::chrono::steady_clock::now();
  for (int k = 0; k < repetitions; ++k) work();
  synchronize(cuda());
  const std::chrono::duration<double, std::milli> passed = std::chrono::steady_clock::now() - start;
  return passed.count() / repetitions;
}

// `amount` of `unit` are done by one repetition.
void line(const std::string& name, double amount, const char* unit,
          const std::function<void()>& work) {
  if (!is_asked(name)) return;
  try {
    work();
    synchronize(cuda());
    const double once = milliseconds(work, 1);
    const int repetitions = std::clamp(static_cast<int>(30 / std::max(once, 1e-3)), 1, 20000);
    double best = milliseconds(work, repetitions);
    for (int round = 0; round < 4; ++round) best = std::min(best, milliseconds(work, repetitions));
    std::printf("{\"name\": \"%s\", \"ms\": %.5g", name.c_str(), best);
    if (amount > 0) std::printf(", \"%s\": %.5g", unit, amount / (best * 1e-3));
    std::printf("}\n");
  } catch (const std::exception& error) {
    std::printf("{\"name\": \"%s\", \"error\": \"%s\"}\n", name.c_str(), error.what());
    try {
      synchronize(cuda());
    } catch (const std::exception&) {  // the same failure, reported again
    }
  }
  std::fflush(stdout);
  empty_cache(cuda());
}

TensorOptions on_device(DType dtype) { return {.dtype = dtype, .device = cuda()}; }

void rows(DType dtype) {
  const std::int64_t count = std::int64_t{1} << 28;
  const std::string suffix = std::string(" 2^28 ") + name(dtype);
  const auto bytes = static_cast<double>(itemsize(dtype)) * static_cast<double>(count) / 1e9;
  const Tensor x = rand({count}, on_device(dtype)), y = rand({count}, on_device(dtype));
  const NoGrad no_grad;
#define UNARY(op, ...) line(#op + suffix, 2 * bytes, "GB/s", [&] { (void)op(x); });
#define UNARY_2_NUMERIC(...)
#include "extensor/tables/unary.def"
#define BINARY(op, ...) line(#op + suffix, 3 * bytes, "GB/s", [&] { (void)op(x, y); });
#include "extensor/tables/binary.def"
  line("gelu_backward" + suffix, 3 * bytes, "GB/s", [&] { (void)gelu_backward(y, x); });
  line("greater" + suffix, 2 * bytes + static_cast<double>(count) / 1e9, "GB/s",
       [&] { (void)greater(x, y); });
  line("where" + suffix, 3 * bytes + static_cast<double>(count) / 1e9, "GB/s",
       [&, c = greater(x, y)] { (void)where(c, x, y); });
  line("add number" + suffix, 2 * bytes, "GB/s", [&] { (void)(x + 1.5); });
  line("copy" + suffix, 2 * bytes, "GB/s", [&] { (void)x.clone(); });
  line("fill" + suffix, bytes, "GB/s", [&] { (void)full({count}, 1.5, on_device(dtype)); });
  line("rand" + suffix, bytes, "GB/s", [&] { (void)rand({count}, on_device(dtype)); });
  line("randn" + suffix, bytes, "GB/s", [&] { (void)randn({count}, on_device(dtype)); });
  line("dropout" + suffix, 2 * bytes, "GB/s", [&] { (void)dropout(x, 0.1, true); });
}

void layouts() {
  const NoGrad no_grad;
  for (const DType dtype : {float32, bfloat16}) {
    const double item = static_cast<double>(itemsize(dtype));
    const std::string suffix = std::string(" ") + name(dtype);
    const Tensor square = rand({8192, 8192}, on_device(dtype));
    const double bytes = 8192.0 * 8192 * item / 1e9;
    line("transposed copy 8192^2" + suffix, 2 * bytes, "GB/s",
         [&] { (void)square.transpose().contiguous(); });
    line("add a row 8192^2" + suffix, 2 * bytes, "GB/s", [&] { (void)(square + square[0]); });
    const Tensor images = rand({64, 256, 56, 56}, on_device(dtype));
    line("NCHW to NHWC 64x256x56^2" + suffix, 2 * static_cast<double>(images.numel()) * item / 1e9,
         "GB/s", [&] {
           (void)images.transpose({0, 2, 3, 1}).contiguous();
         });
    line("sum all 8192^2" + suffix, bytes, "GB/s", [&] { (void)sum(square); });
    line("sum axis 0 8192^2" + suffix, bytes, "GB/s", [&] { (void)sum(square, 0); });
    line("sum axis 1 8192^2" + suffix, bytes, "GB/s", [&] { (void)sum(square, 1); });
    line("argmax axis 1 8192^2" + suffix, bytes, "GB/s", [&] { (void)argmax(square, 1); });
    const Tensor short_rows = square.view({-1, 64});
    line("sum axis 1 2^20x64" + suffix, bytes, "GB/s", [&] { (void)sum(short_rows, 1); });
    line("norm 8192^2" + suffix, bytes, "GB/s", [&] { (void)norm(square); });
    const Tensor x = randn({16384, 4096}, on_device(dtype));
    const double row_bytes = 2 * 16384.0 * 4096 * item / 1e9;
    line("softmax 16384x4096" + suffix, row_bytes, "GB/s", [&] { (void)softmax(x); });
    const Tensor weight = ones({4096}, on_device(dtype)), bias = zeros({4096}, on_device(dtype));
    line("layer_norm 16384x4096" + suffix, row_bytes, "GB/s",
         [&] { (void)layer_norm(x, {4096}, weight, bias); });
  }
  const Tensor wide = rand({std::int64_t{1} << 26}, on_device(float32));
  line("cumsum 2^26 float32", 2 * 4.0 * (1 << 26) / 1e9, "GB/s",
       [&] { (void)cumulative_sum(wide, 0); });
  line("sort 2^26 float32", 0, "", [&] { (void)sort(wide); });
  line("topk(100) of 2^26 float32", 0, "", [&] { (void)topk(wide, 100); });
  line("convert float32 to bfloat16 2^26", 6.0 * (1 << 26) / 1e9, "GB/s",
       [&] { (void)wide.to(bfloat16); });
  const Tensor one = ones({1}, on_device(float32));
  line("one-element add", 0, "", [&] { (void)(one + one); });
}

void training_parts() {
  {
    const Tensor ids = randint(0, 50304, {16384}, {.dtype = int64, .device = cuda()});
    const Tensor grad = randn({16384, 768}, on_device(float32));
    line("embedding backward 16384x768 of 50304 float32", 0, "",
         [&] { (void)embedding_backward(grad, ids, 50304); });
  }
  for (const DType dtype : {float32, bfloat16}) {
    Tensor logits = randn({8192, 50304}, on_device(dtype)).requires_grad_();
    const Tensor target = randint(0, 50304, {8192}, {.dtype = int64, .device = cuda()});
    line(std::string("cross_entropy forward + backward 8192x50304 ") + name(dtype), 0, "", [&] {
      logits.set_grad(Tensor());
      cross_entropy(logits, target).backward();
    });
  }
  {
    Tensor x = randn({256, 256, 56, 56}, on_device(bfloat16))
                   .to(MemoryFormat::channels_last)
                   .requires_grad_();
    const Tensor mean = zeros({256}, cuda()), variance = ones({256}, cuda());
    Tensor weight = ones({256}, cuda()).requires_grad_();
    Tensor bias = zeros({256}, cuda()).requires_grad_();
    const Tensor grad = ones_like(x.detach());
    line("batch_norm forward + backward 256x256x56^2 bfloat16 channels-last", 0, "", [&] {
      x.set_grad(Tensor());
      weight.set_grad(Tensor());
      bias.set_grad(Tensor());
      batch_norm(x, mean, variance, weight, bias, true).backward(grad);
    });
  }
  {
    nn::LSTM layer(512, 512, {.layers = 2});
    layer.to(cuda());
    const Tensor x = randn({128, 64, 512}, on_device(float32));
    line("LSTM 2x512, 128 steps, batch 64 forward + backward float32", 0, "", [&] {
      layer.zero_grad();
      sum(layer(x).output).backward();
    });
  }
  {
    std::vector<Tensor> parameters;
    for (int k = 0; k < 148; ++k) {
      parameters.push_back(randn({124439808 / 148}, on_device(float32)).requires_grad_());
      parameters.back().set_grad(randn({124439808 / 148}, on_device(float32)));
    }
    optim::AdamW optimizer(parameters, {.lr = 1e-4});
    line("AdamW 124M float32", 0, "", [&] { optimizer.step(); });
  }
}

void products() {
  const NoGrad no_grad;
  for (const DType dtype : {bfloat16, float16, float32, float64}) {
    const std::int64_t n = dtype == float64 ? 4096 : 8192;
    const Tensor a = randn({n, n}, on_device(dtype)), b = randn({n, n}, on_device(dtype));
    const auto operations = 2 * static_cast<double>(n * n) * static_cast<double>(n) / 1e12;
    line("matmul " + std::to_string(n) + "^3 " + name(dtype), operations, "Tflop/s",
         [&] { (void)matmul(a, b); });
    if (dtype != float32) continue;
    const AllowTF32 fast;
    line("matmul " + std::to_string(n) + "^3 tf32", operations, "Tflop/s",
         [&] { (void)matmul(a, b); });
  }
  const Tensor x = randn({8192, 8192}, on_device(float32));
  const auto formula =
      extensor::elementwise("scaled_gelu", [](auto v) { return gelu(2 * v + 1) * 3; });
  line("gelu(2x+1)*3 8192^2 float32", 0, "", [&] { (void)formula(x); });
}

void complex_numbers() {
  const NoGrad no_grad;
  const auto drawn = [](const Shape& shape) {
    return complex(randn(shape, on_device(float32)), randn(shape, on_device(float32)));
  };
  {
    const std::int64_t n = std::int64_t{1} << 24;
    const auto count = static_cast<double>(n);
    const Tensor x = drawn({n}), real = randn({n}, on_device(float32));
    line("fft 2^24 complex64", 16 * count / 1e9, "GB/s", [&] { (void)fft::fft(x); });
    line("rfft 2^24 float32", 8 * count / 1e9, "GB/s", [&] { (void)fft::rfft(real); });
    const Tensor square = drawn({1000, 1000});
    line("fft 1000x1000 complex64", 16e6 / 1e9, "GB/s", [&] { (void)fft::fft(square); });
  }
  {
    const Tensor a = drawn({4096, 4096}), b = drawn({4096, 4096});
    line("matmul 4096^3 complex64", 8 * 4096.0 * 4096 * 4096 / 1e12, "Tflop/s",
         [&] { (void)matmul(a, b); });
  }
  const std::int64_t count = std::int64_t{1} << 27;
  const Tensor a = drawn({count}), b = drawn({count});
  line("multiply 2^27 complex64", 3 * 8 * static_cast<double>(count) / 1e9, "GB/s",
       [&] { (void)multiply(a, b); });
}

void models_() {
  const std::string gpt = "GPT-2 124M step, B16 T1024 bfloat16";
  if (is_asked(gpt)) {
    models::GptOptions options = models::gpt2_options();
    options.vocabulary = 50304;
    options.dropout = 0;  // attention is one kernel then
    options.embedding_dropout = options.attention_dropout = options.residual_dropout = 0;
    models::Gpt model(options);
    model.to(cuda());
    optim::AdamW optimizer(model.parameters(), {.lr = 1e-4});
    const Tensor tokens = randint(0, 50304, {16, 1024}, {.dtype = int64, .device = cuda()});
    line(gpt, 16 * 1024, "tokens/s", [&] {
      optimizer.zero_grad();
      Tensor loss;
      {
        const Autocast autocast(bfloat16);
        const Tensor logits = model(tokens);
        loss = cross_entropy(logits.reshape({16 * 1024, 50304}), tokens.flatten());
      }
      loss.backward();
      optimizer.step();
    });
  }
  const std::string resnet = "ResNet-50 step, B256 bfloat16";
  if (is_asked(resnet)) {
    models::ResNet50 model;
    model.to(cuda());
    model.to(MemoryFormat::channels_last);
    optim::SGD optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.9});
    const Tensor images = randn({256, 3, 224, 224}, cuda()).to(MemoryFormat::channels_last);
    const Tensor target = randint(0, 1000, {256}, {.dtype = int64, .device = cuda()});
    line(resnet, 256, "images/s", [&] {
      optimizer.zero_grad();
      Tensor loss;
      {
        const Autocast autocast(bfloat16);
        loss = cross_entropy(model(images), target);
      }
      loss.backward();
      optimizer.step();
    });
  }
}

}  // namespace

int main(int argc, char** argv) {
  parts.assign(argv + 1, argv + argc);
  if (!cuda_is_available()) {
    std::printf("skipped: no CUDA device: %s\n", cuda_unavailable_reason().c_str());
    return 0;
  }
  rows(float32);
  rows(bfloat16);
  layouts();
  training_parts();
  products();
  complex_numbers();
  models_();
}
