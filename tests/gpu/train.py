"""A PyTorch training loop that nothing was set up in. Prints, for each step, when it began
(CLOCK_MONOTONIC, seconds) and how many milliseconds it took; ends when its input ends, or after
the seconds given as its first argument. The model is small, so that a step is bound by launches.
"""
import select
import sys
import time

import torch

seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60
torch.manual_seed(0)
layers = []
for _ in range(8):
    layers += [torch.nn.Linear(256, 256), torch.nn.GELU(), torch.nn.LayerNorm(256)]
model = torch.nn.Sequential(*layers, torch.nn.Linear(256, 10)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, foreach=False)
loss_of = torch.nn.CrossEntropyLoss()
inputs, labels = torch.randn(64, 256, device="cuda"), torch.randint(0, 10, (64,), device="cuda")
kept = []

end = time.monotonic() + seconds
step = 0
while time.monotonic() < end and not select.select([sys.stdin], [], [], 0)[0]:
    begin = time.monotonic()
    optimizer.zero_grad(set_to_none=True)
    loss = loss_of(model(inputs), labels)
    loss.backward()
    optimizer.step()
    torch.cuda.synchronize()
    print(f"{begin:.6f} {(time.monotonic() - begin) * 1e3:.4f}", flush=True)
    if step % 50 == 0 and len(kept) < 200:
        kept.append(torch.empty(4 << 20, dtype=torch.uint8, device="cuda"))  # for `query leaks`
    step += 1
