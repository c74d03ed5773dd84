"""A training loop in Python, on the driver alone, with a planted leak: it keeps losses for a plot that nobody draws.
Runs on the simulated GPU and on a real one."""
import argparse
import ctypes
import time

LOSS_BYTES, BATCH_BYTES = 12345, 64 << 10


def checked(error):
    if error:
        raise SystemExit(f"the driver answered {error}")


driver = ctypes.CDLL("libcuda.so.1")
for name in ("cuInit", "cuDeviceGet", "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent", "cuMemAlloc_v2", "cuMemFree_v2",
             "cuMemsetD8Async", "cuCtxSynchronize"):
    getattr(driver, name).restype = checked


class Model:
    def __init__(self):
        self.activations = ctypes.c_uint64()

    def forward(self, batch_bytes):
        loss = ctypes.c_uint64()
        driver.cuMemAlloc_v2(ctypes.byref(self.activations), ctypes.c_size_t(batch_bytes))
        driver.cuMemsetD8Async(self.activations, ctypes.c_ubyte(0), ctypes.c_size_t(batch_bytes), None)
        driver.cuMemAlloc_v2(ctypes.byref(loss), ctypes.c_size_t(LOSS_BYTES))
        return loss

    def backward(self):
        driver.cuCtxSynchronize()
        driver.cuMemFree_v2(self.activations)


def train(steps, pace_ms):
    model, losses = Model(), []
    for step in range(steps):
        loss = model.forward(BATCH_BYTES)
        model.backward()
        if step % 10 == 0:
            losses.append(loss)  # this is the bug to find
        else:
            driver.cuMemFree_v2(loss)
        time.sleep(pace_ms / 1e3)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--pace-ms", type=float, default=5)
    options = parser.parse_args()
    device, context = ctypes.c_int(), ctypes.c_void_p()
    driver.cuInit(0)
    driver.cuDeviceGet(ctypes.byref(device), 0)
    driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
    driver.cuCtxSetCurrent(context)
    train(options.steps, options.pace_ms)


main()
