"""Exchanges models with ExTensor: weights, outputs and ten steps of training.

    exchange.py make DIRECTORY      PyTorch's side: weights, inputs, outputs, weights after training
    exchange.py verify DIRECTORY    loads what tests/pytorch_exchange_test.cpp wrote, and compares

Files are safetensors, written and read by the few lines below.
"""
import json
import os
import struct
import sys

import torch
from torch import nn
from torch.nn import functional as F

DTYPES = {torch.float32: "F32", torch.float64: "F64", torch.int64: "I64"}


def save(path, tensors):
    header, data, offset = {}, [], 0
    for name, tensor in tensors.items():
        raw = tensor.detach().contiguous().numpy().tobytes()
        header[name] = {"dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [offset, offset + len(raw)]}
        data.append(raw)
        offset += len(raw)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(data))


def load(path):
    with open(path, "rb") as file:
        content = file.read()
    length = struct.unpack("<Q", content[:8])[0]
    names = {text: dtype for dtype, text in DTYPES.items()}
    tensors = {}
    for name, entry in json.loads(content[8:8 + length]).items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        raw = bytearray(content[8 + length + begin:8 + length + end])
        tensors[name] = torch.frombuffer(raw, dtype=names[entry["dtype"]]).reshape(entry["shape"])
    return tensors


# ---- the models, with ExTensor's names -----------------------------------------------------------


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(400, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2).flatten(1)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


class Block(nn.Module):
    def __init__(self, channels_in, channels, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.downsample = None
        if stride != 1 or channels_in != channels:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels_in, channels, 1, stride, bias=False), nn.BatchNorm2d(channels))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet18(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.layer1 = nn.Sequential(Block(64, 64, 1), Block(64, 64, 1))
        self.layer2 = nn.Sequential(Block(64, 128, 2), Block(128, 128, 1))
        self.layer3 = nn.Sequential(Block(128, 256, 2), Block(256, 256, 1))
        self.layer4 = nn.Sequential(Block(256, 512, 2), Block(512, 512, 1))
        self.fc = nn.Linear(512, 10)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


class GptBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = nn.MultiheadAttention(width, heads, batch_first=True)
        self.ln_2 = nn.LayerNorm(width)
        self.fc = nn.Linear(width, 4 * width)
        self.proj = nn.Linear(4 * width, width)

    def forward(self, x):
        y = self.ln_1(x)
        hidden = torch.triu(torch.ones(x.shape[1], x.shape[1], dtype=torch.bool), 1)
        x = x + self.attn(y, y, y, attn_mask=hidden, need_weights=False)[0]
        return x + self.proj(F.gelu(self.fc(self.ln_2(x))))


class Gpt(nn.Module):
    def __init__(self, vocabulary=65, block=64, layers=4, heads=4, width=128):
        super().__init__()
        self.wte = nn.Embedding(vocabulary, width)
        self.wpe = nn.Embedding(block, width)
        self.h = nn.ModuleList(GptBlock(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


def numbers(shape, offset):
    count = torch.Size(shape).numel()
    return ((37 * torch.arange(count) + offset) % 101).float().reshape(shape) / 101


def cases():
    """Name, model, input, targets, optimizer: the same as in pytorch_exchange_test.cpp."""
    tokens = (torch.arange(2 * 64) * 31 % 65).reshape(2, 64)
    sgd = lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9)
    adamw = lambda p: torch.optim.AdamW(p, lr=1e-3)
    yield "lenet", LeNet(), numbers([8, 1, 28, 28], 5), torch.arange(8) % 10, sgd
    yield "resnet18", ResNet18(), numbers([4, 3, 32, 32], 5), torch.arange(4) % 10, sgd
    yield "gpt", Gpt(), tokens, (tokens.reshape(-1) * 7 + 3) % 65, adamw


def outputs(model, x):
    model.eval()
    with torch.no_grad():
        return model(x)


def make(directory):
    torch.manual_seed(0)
    for name, model, x, target, optimizer_of in cases():
        folder = os.path.join(directory, name)
        os.makedirs(folder, exist_ok=True)
        state = lambda: {key: value.clone() for key, value in model.state_dict().items()}
        save(os.path.join(folder, "weights.safetensors"), state())
        save(os.path.join(folder, "output.safetensors"), {"output": outputs(model, x)})
        # Ten steps amplify rounding: in float64 they show whether the formulas are the same.
        model.double().train()
        x = x.double() if x.is_floating_point() else x
        optimizer = optimizer_of(model.parameters())
        for _ in range(10):
            optimizer.zero_grad()
            logits = model(x)
            F.cross_entropy(logits.reshape(-1, logits.shape[-1]), target).backward()
            optimizer.step()
        save(os.path.join(folder, "trained.safetensors"), state())


def verify(directory):
    for name, model, x, _, _ in cases():
        folder = os.path.join(directory, name)
        model.load_state_dict(load(os.path.join(folder, "extensor_weights.safetensors")))
        theirs = load(os.path.join(folder, "extensor_output.safetensors"))["output"]
        error = (outputs(model, x) - theirs).abs().max().item()
        print(f"{name}: ExTensor's weights in PyTorch, outputs differ by at most {error:.2e}")
        if not error <= 1e-5 * max(1, theirs.abs().max().item()):
            sys.exit(f"{name}: outputs differ")


torch.set_num_threads(2)
{"make": make, "verify": verify}[sys.argv[1]](sys.argv[2])
