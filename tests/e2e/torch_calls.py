"""Trains two networks of torch_fake.c in step, each in a thread of its own, until its input ends, and says in which line the
launches of each width are made."""
import ctypes
import json
import sys
import threading
import time

torch = ctypes.CDLL(sys.argv[1])
lines = {}


def here():
    return sys._getframe(1).f_lineno


def first():
    torch.torch_call(1, 1); lines[1] = here()


def second():
    torch.torch_call(2, 3); lines[2] = here()


def forward():
    first()
    torch.torch_call(10, 0)  # a view: its node has a number, but nothing is launched
    torch.torch_launch(3); lines[3] = here()  # nothing that has a node
    torch.torch_call(11, 0)  # a view right before another node
    second()


def other():
    """Nodes with the numbers of those that the other thread makes."""
    for width in (21, 22, 23, 24):
        torch.torch_call(width, 1); lines[21] = here()


def step(network):
    network()
    both.wait()
    torch.torch_backward()
    torch.torch_launch(4)


def train(network):
    while both.wait() >= 0 and not state["done"]:
        step(network)
        time.sleep(0.001)


def look():
    """Between two steps."""
    state["done"] = state["ended"] and not state["ended"].is_alive()


state = {"ended": None, "done": False}
both = threading.Barrier(2, look)


def main():
    assert torch.torch_begin(sys.argv[2].encode()) == 0
    print("ready", flush=True)
    sys.stdin.readline()
    beside = threading.Thread(target=train, args=(other,))
    beside.start()
    both.wait()
    step(forward)
    print(json.dumps(lines), flush=True)
    state["ended"] = threading.Thread(target=sys.stdin.readline)
    state["ended"].start()
    train(forward)
    beside.join()


main()
