#!/usr/bin/env python3
"""What recording leaves of the device's memory in a process: a PyTorch program is attached to and left again and again, and
then recorded within a budget for a while; it says itself what the device has left. CUPTI is taken out of it no more than 64
times, and what that leaves does not grow beyond. Two programs: train (bound by launches, so CUPTI is taken out between
windows) and large (bound by the GPU: recorded whole, or CUPTI rests).

And NVTX, which must neither crash nor be missed: a program whose first call is one of NVTX, before CUDA; in C (with nvcc's
headers) and PyTorch, under tsctl run, with ranges before, while and after it is attached to.

Usage: tests/gpu/cycles.py [BUILD] (build/release), as root, with gcc and PyTorch. CYCLES (70) of attaching; WINDOWS_S (120) within
BUDGET (3%); PARTS (nvtx cycles train large). The last line is the verdict.
"""
import os
import subprocess
import sys
import tempfile
import threading
import time

import gpu
from gpu import HERE, check, wait_for

BUILD = gpu.build(sys.argv)
CYCLES = int(os.environ.get("CYCLES", "70"))
MOST = 64  # TS_CYCLES_MAX
WINDOWS_S = float(os.environ.get("WINDOWS_S", "120"))
BUDGET = os.environ.get("BUDGET", "3%")
PARTS = os.environ.get("PARTS", "nvtx cycles train large").split()
MIB = 1 << 20
LEFT_MIB = 0.7  # by each cycle, at most
SETTINGS = "[probe]\nbudget = none\ntrap_limit = none\n"

MEMORY = """
import sys, time, torch
width, depth, batch = (4096, 6, 8192) if sys.argv[1] == "large" else (256, 8, 64)
model = torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(depth)]).cuda()
inputs = torch.randn(batch, width, device="cuda")
end, told = time.monotonic() + float(sys.argv[2]), 0
while time.monotonic() < end:
    model(inputs).sum().backward()
    torch.cuda.synchronize()
    if time.monotonic() > told + 0.2:
        free, total = torch.cuda.mem_get_info()
        print(total - free, flush=True)
        told = time.monotonic()
"""

NVTX_C = r"""
#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
static void ranges(const char *name)
{
	for (int i = 0; i < 100; i++) {
		nvtxRangePushA(name);
		nvtxMarkA("mark");
		nvtxRangePop();
	}
}
int main(void)
{
	void *cuda, *context;
	int device;
	char line[8];

	ranges("first");
	if (fork() == 0) {
		ranges("child");
		_exit(0);
	}
	wait(NULL);
	cuda = dlopen("libcuda.so.1", RTLD_NOW);
	((int (*)(unsigned))dlsym(cuda, "cuInit"))(0);
	((int (*)(int *, int))dlsym(cuda, "cuDeviceGet"))(&device, 0);
	((int (*)(void **, int))dlsym(cuda, "cuDevicePrimaryCtxRetain"))(&context, device);
	ranges("second");
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		ranges("more");
		puts("done");
		fflush(stdout);
	}
	return 0;
}
"""

NVTX_PYTORCH = """
import sys, torch
torch.cuda.nvtx.range_push("first")
torch.cuda.nvtx.range_pop()
a = torch.randn(64, 3, 32, 32, device="cuda")
conv = torch.nn.Conv2d(3, 8, 3).cuda()
print("ready", flush=True)
for line in sys.stdin:
    with torch.autograd.profiler.emit_nvtx():
        for _ in range(20):
            conv(a).sum().backward()
    import torch.distributed as dist
    if not dist.is_initialized():
        dist.init_process_group("nccl", init_method="tcp://127.0.0.1:29577", rank=0, world_size=1)
    dist.all_reduce(a)
    torch.cuda.synchronize()
    print("done", flush=True)
"""


class Reader:
    """A program that prints what the device holds."""

    def __init__(self, kind, seconds):
        self.process = subprocess.Popen([sys.executable, "-c", MEMORY, kind, str(seconds)], stdout=subprocess.PIPE, text=True)
        self.pid, self.samples = self.process.pid, []
        threading.Thread(target=self.read, daemon=True).start()
        wait_for("the program to begin", lambda: len(self.samples) > 5 or self.process.poll() is not None, 120)

    def read(self):
        for line in self.process.stdout:
            self.samples.append((time.monotonic(), int(line)))

    def mib(self):
        """The least lately: its own memory is the same in each step."""
        after = len(self.samples)
        wait_for("samples", lambda: len(self.samples) > after + 5 or self.process.poll() is not None)
        return min(value for _, value in self.samples[-4:]) / MIB


def cycles_of(daemon, pid):
    rows = daemon.sql(f"SELECT c.cycles AS n FROM collect c JOIN process p ON p.id = c.process WHERE p.pid = {pid}")
    return rows[0]["n"] or 0 if rows else 0


def attach_and_leave():
    program, daemon = Reader("train", 900), gpu.Daemon(BUILD, SETTINGS)
    before = program.mib()
    print(f"attached to and left {CYCLES} times; the device holds {before:.1f} MiB before")
    stays = 0
    for n in range(CYCLES):
        for verb in ("attach", "detach"):
            code, out, err = daemon.ctl(verb, program.pid)
            if code:
                check(f"{verb} {n}", False, out + err)
                return
        stays += "stays" in out + err
        if n in (0, 1, 15, 31, MOST - 1):
            print(f"  after {n + 1}: {program.mib() - before:+.1f} MiB", flush=True)
    grown = program.mib() - before
    print(f"  after {CYCLES}: {grown:+.1f} MiB; CUPTI was taken out {cycles_of(daemon, program.pid)} times, stays after {stays}")
    check("CUPTI was taken out as often as it may be, and no more", cycles_of(daemon, program.pid) == min(MOST, CYCLES))
    check("the memory that this left has its bound", grown < MOST * LEFT_MIB + 4, f"{grown:.1f} MiB")
    check("the program goes on", program.process.poll() is None)
    program.process.kill()
    daemon.stop()


def within_budget(kind):
    program, daemon = Reader(kind, 900 + WINDOWS_S), gpu.Daemon(BUILD, "")
    before = program.mib()
    code, out, err = daemon.ctl("attach", program.pid, "--budget", BUDGET)
    if not check(f"{kind}: attached within {BUDGET}", code == 0, err):
        return
    begin = time.monotonic()
    while time.monotonic() < begin + WINDOWS_S:
        time.sleep(WINDOWS_S / 6)
        windows = daemon.sql("SELECT sum(windows) AS n FROM watch")[0]["n"]
        print(f"  {kind}: {time.monotonic() - begin:4.0f} s: {program.mib() - before:+.1f} MiB, {windows or 0} windows, CUPTI taken out "
              f"{cycles_of(daemon, program.pid)} times", flush=True)
    cycles, grown = cycles_of(daemon, program.pid), program.mib() - before
    code, out, _ = daemon.ctl("cost", program.pid)
    print(out)
    # While it is there, CUPTI has buffers on the device.
    code, out, err = daemon.ctl("detach", program.pid)
    check(f"{kind}: detached", code == 0, err)
    left = program.mib() - before
    print(f"  {kind}: {left:+.1f} MiB after the detach")
    check(f"{kind}: what is left is what {cycles + 1} cycles leave, and no more", left < (cycles + 1) * LEFT_MIB + 4, f"{left:.1f} MiB")
    check(f"{kind}: the program goes on", program.process.poll() is None)
    program.process.kill()
    daemon.stop()


def ask(process, what):
    process.stdin.write("\n")
    process.stdin.flush()
    for line in process.stdout:
        if line.strip() == what:
            return True
    return False


def ranges(daemon, pid):
    return {row["name"]: row["count"] for row in daemon.query("ranges", "--pid", str(pid), "--limit", "1000")["rows"]}


def nvtx(title, command):
    """Under run, whose first calls are NVTX's; detached, attached again, and so on."""
    daemon = gpu.Daemon(BUILD, SETTINGS)
    environment = dict(os.environ, TRACESMITH_INJECT_SOCKET=os.path.join(daemon.directory, "inject.sock"))
    process = subprocess.Popen(daemon.command("run", "--", *command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               env=environment)
    ready = any(line.strip() == "ready" for line in iter(process.stdout.readline, ""))
    if check(f"{title}: lives through its first NVTX calls", ready, f"exit {process.poll()}"):
        check(f"{title}: and through more", ask(process, "done"), f"exit {process.poll()}")
        time.sleep(1)
        print(f"  {len(ranges(daemon, process.pid))} names of ranges; {dict(list(ranges(daemon, process.pid).items())[:6])}")
        check(f"{title}: its ranges are there", ranges(daemon, process.pid))
        for n in range(3):
            code, out, err = daemon.ctl("detach", process.pid)
            check(f"{title}: detached", code == 0, err)
            check(f"{title}: and through more after a detach", ask(process, "done"), f"exit {process.poll()}")
            code, out, err = daemon.ctl("attach", process.pid)
            check(f"{title}: attached", code == 0, err)
            check(f"{title}: and through more after an attach", ask(process, "done"), f"exit {process.poll()}")
    process.stdin.close()
    check(f"{title}: ends well", process.wait(60) == 0, f"exit {process.returncode}")
    daemon.stop()


def nvtx_parts():
    source = os.path.join(tempfile.mkdtemp(), "nvtx.c")
    with open(source, "w") as file:
        file.write(NVTX_C)
    program = source[:-2]
    made = subprocess.run(["gcc", "-O1", "-I", "/usr/local/cuda/include", source, "-o", program, "-ldl"], capture_output=True, text=True)
    if check("NVTX in C is built", made.returncode == 0, made.stderr[:300]):
        nvtx("NVTX in C", [program])
    nvtx("NVTX in PyTorch, with cuDNN's and NCCL's", [sys.executable, "-c", NVTX_PYTORCH])


def main():
    print(gpu.machine())
    for part, run in (("nvtx", nvtx_parts), ("cycles", attach_and_leave), ("train", lambda: within_budget("train")),
                      ("large", lambda: within_budget("large"))):
        if part in PARTS:
            begin = time.monotonic()
            run()
            print(f"  {part}: {time.monotonic() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    gpu.run(main)
