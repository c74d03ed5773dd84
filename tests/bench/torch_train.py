"""What torch_stacks.py runs under torch_shim.c: threads that train a small network on the CPU: forward, backward and
optimizer. Arguments: the shim, the driver, where the truth goes, steps and threads."""
import ctypes
import sys
import threading

import torch
from torch import nn

WIDTH, WORDS = 16, 50


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.query, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.between = nn.LayerNorm(WIDTH)
        self.wide = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        query, key, value = self.query(self.before(x)).chunk(3, -1)
        attention = torch.softmax(query @ key.transpose(-2, -1), -1) @ value
        x = x + self.out(attention)
        return x + self.wide(self.between(x))


class Square(torch.autograd.Function):
    """A node of Python in the backward pass."""

    @staticmethod
    def forward(context, x):
        context.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(context, gradient):
        (x,) = context.saved_tensors
        return 2 * x * gradient


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList([Block() for _ in range(3)])
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, words):
        x = self.embedding(words)
        for block in self.blocks:
            x = block(x)
        return self.head(Square.apply(x))


def step(net, optimizer, words):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(net(words).view(-1, WORDS), words.view(-1))
    loss.backward()
    optimizer.step()
    return max(float(part) for part in (loss * i for i in range(2)))


def train(steps):
    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for _ in range(steps):
        step(net, optimizer, torch.randint(0, WORDS, (2, 8)))


def main():
    shim, driver, truth, steps, threads = *sys.argv[1:4], *map(int, sys.argv[4:6])
    torch.set_num_threads(1)
    train(1)
    shim = ctypes.PyDLL(shim)
    assert shim.torch_shim_begin(driver.encode(), truth.encode()) == 0
    print("ready", flush=True)
    sys.stdin.readline()
    workers = [threading.Thread(target=train, args=(steps,)) for _ in range(threads - 1)]
    for worker in workers:
        worker.start()
    train(steps)
    for worker in workers:
        worker.join()
    print(shim.torch_shim_end(), flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main()
