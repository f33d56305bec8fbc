"""Measures the lines of bench/cuda/main.cpp in PyTorch on the same machine, as the same JSON.

    python3 lines_torch.py [part of a name]...
"""

import json
import sys
import time

import torch
import torch.nn.functional as F

PARTS = sys.argv[1:]  # of the names of the lines that are asked for; none: all
DEVICE = "cuda"


def milliseconds(work, repetitions):
    start = time.perf_counter()
    for _ in range(repetitions):
        work()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) * 1e3 / repetitions


def is_asked(name):
    return not PARTS or any(part in name for part in PARTS)


def line(name, amount, unit, work):
    if not is_asked(name):
        return
    try:
        work()
        torch.cuda.synchronize()
        once = milliseconds(work, 1)
        repetitions = min(max(int(30 / max(once, 1e-3)), 1), 20000)
        best = min(milliseconds(work, repetitions) for _ in range(5))
        result = {"name": name, "ms": float(f"{best:.5g}")}
        if amount > 0:
            result[unit] = float(f"{amount / (best * 1e-3):.5g}")
    except Exception as error:  # one line that fails leaves the others
        result = {"name": name, "error": str(error).split("\n")[0]}
    print(json.dumps(result), flush=True)
    torch.cuda.empty_cache()


def name_of(dtype):
    return str(dtype).split(".")[1]


def rows(dtype):
    count = 1 << 28
    suffix = f" 2^28 {name_of(dtype)}"
    bytes_ = torch.empty(0, dtype=dtype).element_size() * count / 1e9
    x = torch.rand(count, device=DEVICE, dtype=dtype)
    y = torch.rand(count, device=DEVICE, dtype=dtype)
    unary = {
        "relu": F.relu, "relu6": F.relu6, "elu": F.elu, "selu": F.selu, "celu": F.celu,
        "leaky_relu": F.leaky_relu, "softplus": F.softplus, "softsign": F.softsign, "silu": F.silu,
        "mish": F.mish, "gelu": F.gelu, "gelu_tanh": lambda t: F.gelu(t, approximate="tanh"),
        "hardtanh": F.hardtanh, "hard_sigmoid": F.hardsigmoid, "hard_swish": F.hardswish,
        "hardsigmoid": F.hardsigmoid, "hardswish": F.hardswish, "log_sigmoid": F.logsigmoid,
        "cbrt": lambda t: t.pow(1 / 3), "tanhshrink": F.tanhshrink, "softshrink": F.softshrink,
        "hardshrink": F.hardshrink, "hard_tanh": F.hardtanh, "normal_cdf": torch.special.ndtr,
    }
    for name in ("negative abs square sign reciprocal ceil floor round trunc exp exp2 "
                 "expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh "
                 "asinh acosh atanh erf erfinv sigmoid").split():
        unary.setdefault(name, getattr(torch, name))
    with torch.no_grad():
        for name, function in unary.items():
            line(name + suffix, 2 * bytes_, "GB/s", lambda f=function: f(x))
        binary = {"add": torch.add, "subtract": torch.subtract, "multiply": torch.multiply,
                  "divide": torch.divide, "floor_divide": torch.floor_divide,
                  "modulo": torch.remainder, "power": torch.pow, "maximum": torch.maximum,
                  "minimum": torch.minimum, "atan2": torch.atan2, "hypot": torch.hypot,
                  "copysign": torch.copysign, "logaddexp": torch.logaddexp}
        for name, function in binary.items():
            line(name + suffix, 3 * bytes_, "GB/s", lambda f=function: f(x, y))
        line("gelu_backward" + suffix, 3 * bytes_, "GB/s",
             lambda: torch.ops.aten.gelu_backward(y, x))
        line("greater" + suffix, 2 * bytes_ + count / 1e9, "GB/s", lambda: x > y)
        mask = x > y
        line("where" + suffix, 3 * bytes_ + count / 1e9, "GB/s", lambda: torch.where(mask, x, y))
        line("add number" + suffix, 2 * bytes_, "GB/s", lambda: x + 1.5)
        line("copy" + suffix, 2 * bytes_, "GB/s", lambda: x.clone())
        line("fill" + suffix, bytes_, "GB/s",
             lambda: torch.full((count,), 1.5, device=DEVICE, dtype=dtype))
        line("rand" + suffix, bytes_, "GB/s", lambda: torch.rand(count, device=DEVICE, dtype=dtype))
        line("randn" + suffix, bytes_, "GB/s",
             lambda: torch.randn(count, device=DEVICE, dtype=dtype))
        line("dropout" + suffix, 2 * bytes_, "GB/s", lambda: F.dropout(x, 0.1, True))


@torch.no_grad()
def layouts():
    for dtype in (torch.float32, torch.bfloat16):
        item = torch.empty(0, dtype=dtype).element_size()
        suffix = f" {name_of(dtype)}"
        square = torch.rand(8192, 8192, device=DEVICE, dtype=dtype)
        bytes_ = 8192 * 8192 * item / 1e9
        line("transposed copy 8192^2" + suffix, 2 * bytes_, "GB/s", lambda: square.t().contiguous())
        line("add a row 8192^2" + suffix, 2 * bytes_, "GB/s", lambda: square + square[0])
        images = torch.rand(64, 256, 56, 56, device=DEVICE, dtype=dtype)
        line("NCHW to NHWC 64x256x56^2" + suffix, 2 * images.numel() * item / 1e9, "GB/s",
             lambda: images.permute(0, 2, 3, 1).contiguous())
        line("sum all 8192^2" + suffix, bytes_, "GB/s", lambda: square.sum())
        line("sum axis 0 8192^2" + suffix, bytes_, "GB/s", lambda: square.sum(0))
        line("sum axis 1 8192^2" + suffix, bytes_, "GB/s", lambda: square.sum(1))
        line("argmax axis 1 8192^2" + suffix, bytes_, "GB/s", lambda: square.argmax(1))
        rows = square.view(-1, 64)
        line("sum axis 1 2^20x64" + suffix, bytes_, "GB/s", lambda: rows.sum(1))
        line("norm 8192^2" + suffix, bytes_, "GB/s", lambda: square.norm())
        x = torch.randn(16384, 4096, device=DEVICE, dtype=dtype)
        row_bytes = 2 * 16384 * 4096 * item / 1e9
        line("softmax 16384x4096" + suffix, row_bytes, "GB/s", lambda: x.softmax(-1))
        weight = torch.ones(4096, device=DEVICE, dtype=dtype)
        bias = torch.zeros(4096, device=DEVICE, dtype=dtype)
        line("layer_norm 16384x4096" + suffix, row_bytes, "GB/s",
             lambda: F.layer_norm(x, (4096,), weight, bias))
    wide = torch.rand(1 << 26, device=DEVICE)
    line("cumsum 2^26 float32", 2 * 4 * (1 << 26) / 1e9, "GB/s", lambda: wide.cumsum(0))
    line("sort 2^26 float32", 0, "", lambda: wide.sort())
    line("topk(100) of 2^26 float32", 0, "", lambda: wide.topk(100))
    line("convert float32 to bfloat16 2^26", 6 * (1 << 26) / 1e9, "GB/s",
         lambda: wide.to(torch.bfloat16))
    one = torch.ones(1, device=DEVICE)
    line("one-element add", 0, "", lambda: one + one)


def training_parts():
    ids = torch.randint(0, 50304, (16384,), device=DEVICE)
    grad = torch.randn(16384, 768, device=DEVICE)
    line("embedding backward 16384x768 of 50304 float32", 0, "",
         lambda: torch.ops.aten.embedding_dense_backward(grad, ids, 50304, -1, False))
    for dtype in (torch.float32, torch.bfloat16):
        logits = torch.randn(8192, 50304, device=DEVICE, dtype=dtype, requires_grad=True)
        target = torch.randint(0, 50304, (8192,), device=DEVICE)

        def step(logits=logits, target=target):
            logits.grad = None
            F.cross_entropy(logits, target).backward()

        line(f"cross_entropy forward + backward 8192x50304 {name_of(dtype)}", 0, "", step)
    x = torch.randn(256, 256, 56, 56, device=DEVICE, dtype=torch.bfloat16)
    x = x.to(memory_format=torch.channels_last).requires_grad_()
    mean, variance = torch.zeros(256, device=DEVICE), torch.ones(256, device=DEVICE)
    weight = torch.ones(256, device=DEVICE, requires_grad=True)
    bias = torch.zeros(256, device=DEVICE, requires_grad=True)
    ones = torch.ones_like(x)

    def norm():
        x.grad = weight.grad = bias.grad = None
        F.batch_norm(x, mean, variance, weight, bias, True).backward(ones)

    line("batch_norm forward + backward 256x256x56^2 bfloat16 channels-last", 0, "", norm)
    lstm = torch.nn.LSTM(512, 512, 2).to(DEVICE)
    steps = torch.randn(128, 64, 512, device=DEVICE)

    def recurrent():
        lstm.zero_grad()
        lstm(steps)[0].sum().backward()

    line("LSTM 2x512, 128 steps, batch 64 forward + backward float32", 0, "", recurrent)
    parameters = [torch.randn(124439808 // 148, device=DEVICE, requires_grad=True)
                  for _ in range(148)]
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    optimizer = torch.optim.AdamW(parameters, lr=1e-4, fused=True)
    line("AdamW 124M float32", 0, "", optimizer.step)


@torch.no_grad()
def products():
    for dtype in (torch.bfloat16, torch.float16, torch.float32, torch.float64):
        n = 4096 if dtype == torch.float64 else 8192
        a = torch.randn(n, n, device=DEVICE, dtype=dtype)
        b = torch.randn(n, n, device=DEVICE, dtype=dtype)
        line(f"matmul {n}^3 {name_of(dtype)}", 2 * n**3 / 1e12, "Tflop/s", lambda: a @ b)
        if dtype == torch.float32:
            torch.backends.cuda.matmul.allow_tf32 = True
            line(f"matmul {n}^3 tf32", 2 * n**3 / 1e12, "Tflop/s", lambda: a @ b)
            torch.backends.cuda.matmul.allow_tf32 = False
    x = torch.randn(8192, 8192, device=DEVICE)
    line("gelu(2x+1)*3 8192^2 float32", 0, "", lambda: F.gelu(2 * x + 1) * 3)


@torch.no_grad()
def complex_numbers():
    n = 1 << 24
    x = torch.randn(n, device=DEVICE, dtype=torch.complex64)
    real = torch.randn(n, device=DEVICE)
    line("fft 2^24 complex64", 16 * n / 1e9, "GB/s", lambda: torch.fft.fft(x))
    line("rfft 2^24 float32", 8 * n / 1e9, "GB/s", lambda: torch.fft.rfft(real))
    square = torch.randn(1000, 1000, device=DEVICE, dtype=torch.complex64)
    line("fft 1000x1000 complex64", 16e6 / 1e9, "GB/s", lambda: torch.fft.fft(square))
    a = torch.randn(4096, 4096, device=DEVICE, dtype=torch.complex64)
    b = torch.randn(4096, 4096, device=DEVICE, dtype=torch.complex64)
    line("matmul 4096^3 complex64", 8 * 4096**3 / 1e12, "Tflop/s", lambda: a @ b)
    count = 1 << 27
    a = torch.randn(count, device=DEVICE, dtype=torch.complex64)
    b = torch.randn(count, device=DEVICE, dtype=torch.complex64)
    line("multiply 2^27 complex64", 3 * 8 * count / 1e9, "GB/s", lambda: a * b)


class Block(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.fc, self.proj = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2)
                   for part in self.qkv(self.ln_1(x)).split(width, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.proj(F.gelu(self.fc(self.ln_2(x)), approximate="tanh"))


class Gpt(torch.nn.Module):
    def __init__(self, vocabulary=50304, block=1024, layers=12, heads=12, width=768):
        super().__init__()
        self.tokens = torch.nn.Embedding(vocabulary, width)
        self.positions = torch.nn.Embedding(block, width)
        self.blocks = torch.nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = torch.nn.LayerNorm(width)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions.weight[:ids.shape[1]]
        return F.linear(self.norm(self.blocks(x)), self.tokens.weight)


def models():
    if is_asked("GPT-2 124M step, B16 T1024 bfloat16"):
        model = Gpt().to(DEVICE)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
        ids = torch.randint(0, 50304, (16, 1024), device=DEVICE)

        def step():
            optimizer.zero_grad()
            with torch.autocast(DEVICE, torch.bfloat16):
                loss = F.cross_entropy(model(ids).view(-1, 50304), ids.view(-1))
            loss.backward()
            optimizer.step()

        line("GPT-2 124M step, B16 T1024 bfloat16", 16 * 1024, "tokens/s", step)
        del model, optimizer
    try:
        import torchvision
    except ImportError:
        return
    if is_asked("ResNet-50 step, B256 bfloat16"):
        net = torchvision.models.resnet50().to(DEVICE, memory_format=torch.channels_last)
        sgd = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, fused=True)
        images = torch.randn(256, 3, 224, 224, device=DEVICE)
        images = images.to(memory_format=torch.channels_last)
        target = torch.randint(0, 1000, (256,), device=DEVICE)

        def net_step():
            sgd.zero_grad()
            with torch.autocast(DEVICE, torch.bfloat16):
                loss = F.cross_entropy(net(images), target)
            loss.backward()
            sgd.step()

        line("ResNet-50 step, B256 bfloat16", 256, "images/s", net_step)


if __name__ == "__main__":
    rows(torch.float32)
    rows(torch.bfloat16)
    layouts()
    training_parts()
    products()
    complex_numbers()
    models()
