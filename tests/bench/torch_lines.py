"""What torch_backward.py runs under torch_shim.c: a network is trained on the CPU, and beside it, by a thread whose nodes
have the same numbers, another one. PyTorch's anomaly mode keeps with each node of its autograd where it was made, and a hook
behind each node says which allocations were its own. Arguments: the shim, the driver, where the stacks go, steps."""
import concurrent.futures
import ctypes
import json
import os
import sys

import torch
from torch import nn

WIDTH = 16
rows = []
kept = set()  # nodes of all steps, which have their hook


class Square(torch.autograd.Function):
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
        self.first, self.second, self.norm = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x):
        y = self.first(x)
        with torch.no_grad():
            mask = (y * y).abs() < 9
        y = torch.tanh(y)
        y = y.view(2, -1, WIDTH)
        positive = y.detach() > 0
        y = self.norm(y) * mask.view(y.shape)
        y = self.second(y)
        query, key = y.chunk(2, -1)
        y = torch.softmax(query @ key.transpose(-2, -1), -1) @ positive[..., :8].float()
        y = y.unsqueeze(0).expand(3, *y.shape) + 1
        return Square.apply(y)


def loss_of(net, x):
    y = net(x)
    loss = y.pow(2)
    return loss.mean()


def loss_beside(weight, x):
    y = x
    for _ in range(15):
        y = torch.sigmoid(y @ weight)
    return y.sum()


def made_at(node):
    """The innermost line of ours that made a node."""
    for text in reversed(node.metadata.get("traceback_", [])):
        file, line = text.strip().splitlines()[0].split(",")[:2]
        if "-packages/torch/" not in file:
            return f"{os.path.basename(file.split(chr(34))[1])}:{line.split()[1]}"
    return None


def nodes_of(root):
    found, todo = set(), [root]
    while todo:
        node = todo.pop()
        if node is not None and node not in found:
            found.add(node)
            todo.extend(following for following, _ in node.next_functions)
    return found


def done(shim, name, made):
    """What was allocated since the node before it."""
    end = shim.torch_shim_count()
    rows.append((name, made, done.since, end))
    done.since = end


def run_backward(shim, loss):
    for node in nodes_of(loss.grad_fn):
        if node not in kept:
            node.register_hook(lambda *_, name=node.name(), made=made_at(node): done(shim, name, made))
        if node.name().endswith("AccumulateGrad"):
            kept.add(node)
    done.since = shim.torch_shim_count()
    loss.backward()


def main():
    shim, driver, path, steps = *sys.argv[1:4], int(sys.argv[4])
    torch.set_num_threads(1)
    net, weight = Net(), torch.randn(WIDTH, WIDTH, requires_grad=True)
    beside = concurrent.futures.ThreadPoolExecutor(1)
    beside.submit(lambda: loss_beside(weight, torch.randn(4, WIDTH)).backward()).result()
    loss_of(net, torch.randn(4, WIDTH)).backward()
    shim = ctypes.PyDLL(shim)
    assert shim.torch_shim_begin(driver.encode(), path.encode()) == 0
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(steps):
        with torch.autograd.detect_anomaly(check_nan=False):
            loss = loss_of(net, torch.randn(4, WIDTH))
            other = beside.submit(loss_beside, weight, torch.randn(4, WIDTH)).result()
        run_backward(shim, loss)
        beside.submit(run_backward, shim, other).result()
        net.zero_grad()
    print(json.dumps({"made": shim.torch_shim_end(), "rows": rows}), flush=True)
    sys.stdin.readline()


main()
