"""A PyTorch training loop without any preparation. Prints, for each step, when it began
(CLOCK_MONOTONIC, seconds), how many milliseconds it took, and the loss; ends when its input ends or
with an empty line, or after the seconds given as its first argument. The model is small, so that a
step is bound by launches; with --large it is large products of matrices, bound by the GPU; with
--graph a step is one launch of a CUDA graph.

A line "profile cuda", "profile cpu" or "profile stack" switches torch.profiler on (CUDA alone, with
the CPU, with stacks as well), "profile off" switches it off; with "count" behind the first, that
says what it saw.
"""
import select
import sys
import time

import torch
from torch.profiler import ProfilerActivity, profile

arguments = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
large = "--large" in sys.argv
seconds = float(arguments[0]) if arguments else 60
torch.manual_seed(0)
width, depth = (4096, 6) if large else (256, 8)
layers = []
for _ in range(depth):
    layers += [torch.nn.Linear(width, width), torch.nn.GELU(), torch.nn.LayerNorm(width)]
model = torch.nn.Sequential(*layers, torch.nn.Linear(width, 10)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, foreach=large)
loss_of = torch.nn.CrossEntropyLoss()
batch = 8192 if large else 64
inputs, labels = torch.randn(batch, width, device="cuda"), torch.randint(0, 10, (batch,), device="cuda")
kept = []
profiler, count = None, False
PROFILES = {
    "cuda": dict(activities=[ProfilerActivity.CUDA]),
    "cpu": dict(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]),
    "stack": dict(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], with_stack=True),
}


def command(line):
    """False: end."""
    global profiler, count
    words = line.split()
    if words[:1] != ["profile"]:
        return False
    if profiler:
        profiler.__exit__(None, None, None)
        if count:
            kernels = sum(1 for event in profiler.events() if event.device_type == torch.autograd.DeviceType.CUDA)
            print(f"# profiler saw {kernels} events of the device", flush=True)
        profiler = None
    if words[1] != "off":
        count = "count" in words
        profiler = profile(**PROFILES[words[1]])
        profiler.__enter__()
    print(f"# profile {words[1]}", flush=True)
    return True


def train():
    optimizer.zero_grad(set_to_none=True)
    loss = loss_of(model(inputs), labels)
    loss.backward()
    optimizer.step()
    return loss


def captured():
    """train() as a graph, after the steps that have to come before it; and what it makes."""
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(3):
            train()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = train()
    return graph, loss


graph, loss = captured() if "--graph" in sys.argv else (None, None)
end = time.monotonic() + seconds
step = 0
while time.monotonic() < end:
    if select.select([sys.stdin], [], [], 0)[0] and not command(sys.stdin.readline()):
        break
    begin = time.monotonic()
    if graph:
        graph.replay()
    else:
        loss = train()
    torch.cuda.synchronize()
    took = time.monotonic() - begin
    print(f"{begin:.6f} {took * 1e3:.4f} {loss.item():.9g}", flush=True)
    if step % 50 == 0 and len(kept) < 200:
        kept.append(torch.empty(4 << 20, dtype=torch.uint8, device="cuda"))  # for `query leaks`
    step += 1
