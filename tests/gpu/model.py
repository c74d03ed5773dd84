"""The training step of train.py for scripts that call it themselves: small, so it is bound by launches."""


def training(torch):
    """A function that makes a step and waits for it, after the first ones."""
    torch.manual_seed(0)
    layers = []
    for _ in range(8):
        layers += [torch.nn.Linear(256, 256), torch.nn.GELU(), torch.nn.LayerNorm(256)]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(256, 10)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, foreach=False)
    loss_of = torch.nn.CrossEntropyLoss()
    inputs, labels = torch.randn(64, 256, device="cuda"), torch.randint(0, 10, (64,), device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss_of(model(inputs), labels).backward()
        optimizer.step()
        torch.cuda.synchronize()

    for _ in range(20):
        step()
    return step
