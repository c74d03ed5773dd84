"""What torch_price.py runs under torch_shim.c: a thread that trains a small network on the CPU, in turns. Arguments:
the shim and the driver; each line is a number of steps, answered by the time in ns and how often it launched."""
import ctypes
import sys
import time

import torch
from torch_train import WORDS, Net, step


def main():
    torch.set_num_threads(1)
    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    words = torch.randint(0, WORDS, (2, 8))
    step(net, optimizer, words)
    shim = ctypes.PyDLL(sys.argv[1])
    assert shim.torch_shim_begin(sys.argv[2].encode(), None) == 0
    print("ready", flush=True)
    for line in sys.stdin:
        before, began = shim.torch_shim_end(), time.thread_time_ns()
        for _ in range(int(line)):
            step(net, optimizer, words)
        print(time.thread_time_ns() - began, shim.torch_shim_end() - before, flush=True)


main()
