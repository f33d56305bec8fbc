"""LeNet on MNIST in PyTorch, as its users write it: the yardstick of `extensor train mnist`.

    mnist_torch.py DIRECTORY EPOCHS

Prints images a second of training (data loading included) and the test accuracy.
"""
import gzip
import sys
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def read(directory, name):
    with gzip.open(f"{directory}/{name}.gz", "rb") as file:
        data = file.read()
    rank = data[3]
    shape = [int.from_bytes(data[4 + 4 * k : 8 + 4 * k], "big") for k in range(rank)]
    return torch.from_numpy(np.frombuffer(data, np.uint8, offset=4 + 4 * rank).reshape(shape).copy())


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x):
        x = torch.max_pool2d(torch.relu(self.conv1(x)), 2)
        x = torch.max_pool2d(torch.relu(self.conv2(x)), 2)
        x = torch.relu(self.fc1(x.flatten(1)))
        return self.fc3(torch.relu(self.fc2(x)))


def main(directory, epochs):
    torch.manual_seed(0)
    # Converted and normalized once, before the clock starts: the loader only picks and stacks.
    def inputs(images):
        return (images.unsqueeze(1).float() / 255 - 0.1307) / 0.3081

    train = TensorDataset(inputs(read(directory, "train-images-idx3-ubyte")),
                          read(directory, "train-labels-idx1-ubyte").long())
    test_x = inputs(read(directory, "t10k-images-idx3-ubyte"))
    test_y = read(directory, "t10k-labels-idx1-ubyte").long()
    loader = DataLoader(train, batch_size=64, shuffle=True, num_workers=2, drop_last=True,
                        persistent_workers=True)
    model = LeNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3,
                                                   total_steps=epochs * len(loader))
    loss_of = nn.CrossEntropyLoss()
    rates = []
    for epoch in range(epochs):
        start = time.perf_counter()
        for x, y in loader:
            optimizer.zero_grad()
            loss_of(model(x), y).backward()
            optimizer.step()
            schedule.step()
        rates.append(len(loader) * 64 / (time.perf_counter() - start))
    with torch.no_grad():
        right = (model(test_x).argmax(1) == test_y).float().mean().item()
    print(f"PyTorch {torch.__version__}: {sorted(rates)[len(rates) // 2]:.0f} images/s, "
          f"accuracy {100 * right:.2f} %")


main(sys.argv[1], int(sys.argv[2]))
