"""Hosts that are made up: what the shippers of a fleet would have inserted, as rows of text by table.

Every process is a rank of one job that trains in step: in a minute each rank computes for a while and spends the
rest in collectives, waiting for the last. A fault makes a rank slow (its own compute takes longer) or late (its
compute does not, but it comes late to the collectives, as if the host were slow).
"""
import random

KERNELS = [f"void cutlass::Kernel<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_{m}x{n}_32x{k}>(Params)"
           for m, n, k in ((64, 64, 5), (128, 64, 4), (128, 128, 3), (256, 64, 4), (256, 128, 3))]
KERNELS += [f"void at::native::vectorized_elementwise_kernel<4, at::native::{f}<float>, std::array<char*, 2>>(int, {f}, std::array)"
            for f in ("AddFunctor", "MulFunctor", "FillFunctor", "GeluFunctor", "CopyFunctor")]
KERNELS += ["flash_fwd_kernel", "flash_bwd_kernel", "layer_norm_kernel", "softmax_warp_forward", "adamw_multi_tensor"]
COLLECTIVES = ["ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096>)",
               "ncclDevKernel_AllGather_RING_SIMPLE(ncclDevKernelArgsStorage<4096>)",
               "ncclDevKernel_ReduceScatter_Sum_bf16_RING_SIMPLE(ncclDevKernelArgsStorage<4096>)"]
CALLS = [("launch", "cuLaunchKernel", 60000), ("launch", "cuLaunchKernelExC", 4000), ("copy", "cuMemcpyHtoDAsync_v2", 500),
         ("copy", "cuMemcpyDtoHAsync_v2", 300), ("sync", "cuStreamSynchronize", 900), ("event", "cuEventRecord", 8000),
         ("event", "cuStreamWaitEvent", 6000), ("event", "cuEventQuery", 20000), ("alloc", "cuMemAlloc_v2", 2),
         ("set", "cuMemsetD8Async", 700)]
STATES = [("running", 0.90), ("idle", 0.03), ("copying", 0.02), ("waiting", 0.03), ("pending", 0.02)]
COLUMNS = {
    "host": "host boot machine time seen lag_s tracesmith kernel driver cpus gpus wall_offset_ns told_ns",
    "process": "host boot process time pid uid user comm command job rank local_rank world_size tier first_ns exit_code told_ns",
    "device": "host boot process device time uuid name memory_bytes multiprocessors clock_khz told_ns",
    "rollup": "host boot process time second kind fn detail device result freed calls timed total_ns min_ns max_ns bytes told_ns",
    "work": "host boot process time second device kind detail name count total_ns min_ns max_ns bytes delay_ns told_ns",
    "collective": "host boot process time second number communicator rank size operation type reduction peer log2_bytes calls bytes runs shared"
                  " timed timed_bytes total_ns min_ns max_ns told_ns",
    "busy": "host boot process time second device state ns told_ns",
    "memory": "host boot process time second device kind live_bytes live_count peak_bytes told_ns",
    "growth": "host boot process stack fn kind device time seen verdict confidence kept_bytes kept bytes_per_hour told_ns",
    "stack": "host boot process stack time site frames told_ns",
    "loss": "host boot process time second reason count start_ns end_ns told_ns",
    "price": "host boot process part time seen measured budget_ppm share_ppm cost_ppm cost_low_ppm cost_high_ppm told_ns",
    "incident": "host boot kind id time process device stack time_ns last_ns bytes text told_ns",
    "clock": "host boot server at_ns time offset_ns drift_ppb bound_ns drift_bound_ppb round_trip_ns wall_offset_ns told_ns",
    "op": "host boot process time kind fn name device stream tid start_ns end_ns gpu_start_ns gpu_end_ns flags correlation told_ns",
}
MINUTE_NS = 60 * 10**9


def escaped(text):
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")


class Host:
    """One host of a job, from `start` (Unix seconds, a minute) on."""

    def __init__(self, number, count, start, gpus=8, name=None, job="4711", slow=(), late=(), seed=0):
        self.number, self.gpus, self.start, self.job, self.world = number, gpus, start, job, count * gpus
        self.name = escaped(name or f"gpu-{number:05}")
        self.boot = f"{number:08x}-0000-4000-8000-{seed:012x}"
        self.slow, self.late = dict(slow), dict(late)
        self.random = random.Random(number * 1000003 + seed)
        # Each host's clock started at its own time.
        self.first = 100000 + 60 * (number % 977)
        self.key = f"{self.name}\t{self.boot}"

    def identity(self, seen):
        """The rows that a host sends once, and again when they change."""
        told = self.first * 10**9
        yield "host", (f"{self.key}\t{self.number:032x}\t{self.start}\t{seen}\t7\t0.1.0\t6.1.0-28-amd64\t580.159\t192\t{self.gpus}"
                       f"\t{(self.start - self.first) * 10**9}\t{told}\n")
        for gpu in range(self.gpus):
            process, rank = 1000 + gpu, self.number * self.gpus + gpu
            yield "process", (f"{self.key}\t{process}\t{self.start}\t{5000 + gpu}\t1000\talice\tpython3\tpython3 train.py --lr 3e-4\t"
                              f"{escaped(self.job)}\t{rank}\t{gpu}\t{self.world}\texact\t{told}\t-1\t{told}\n")
            yield "device", (f"{self.key}\t{process}\t{gpu}\t{self.start}\tGPU-{self.number:08x}-{gpu:04x}\tNVIDIA H200\t"
                             f"{141 << 30}\t132\t1980000\t{told}\n")
            yield "price", f"{self.key}\t{process}\texact\t{self.start}\t{seen}\t1\t30000\t1000000\t21000\t18000\t24000\t{told}\n"

    def minute(self, minute):
        """The rows of one minute of all its processes, by table."""
        time, second = self.start + 60 * minute, self.first + 60 * minute
        told = (second + 75) * 10**9
        text = {"rollup": [], "work": [], "busy": [], "memory": []}
        for gpu in range(self.gpus):
            rank = self.number * self.gpus + gpu
            at = f"{self.key}\t{1000 + gpu}\t{time}\t{second}"
            self._work(text["work"], f"{at}\t{gpu}", rank, told)
            for state, share in STATES:
                text["busy"].append(f"{at}\t{gpu}\t{state}\t{int(MINUTE_NS * share)}\t{told}\n")
            for kind, fn, calls in CALLS:
                calls += self.random.randrange(calls // 50 + 1)
                text["rollup"].append(f"{at}\t{kind}\t{fn}\t\t{gpu}\t0\t0\t{calls}\t{calls}\t{calls * 2500}\t900\t{900000 + calls}"
                                      f"\t{calls << 12 if kind == 'copy' else 0}\t{told}\n")
            live = (90 << 30) + self.random.randrange(1 << 24) * 512
            text["memory"].append(f"{at}\t{gpu}\tdevice\t{live}\t{400 + minute % 7}\t{live + (1 << 30)}\t{told}\n")
        return {table: "".join(rows) for table, rows in text.items()}

    def _work(self, rows, at, rank, told):
        noise = self.random.uniform(0.997, 1.003)
        own = int(40e9 * noise * self.slow.get(rank, 1))
        together = int(60e9 - 40e9 * 1.2 - self.late.get(rank, 0) * 1e9 + (40e9 * 1.2 - own) + self.random.uniform(-5e7, 5e7))
        for number, name in enumerate(KERNELS):
            count = 200 + 37 * number
            total = own * (len(KERNELS) - number) // 120
            rows.append(f"{at}\tkernel\t\t{name}\t{count}\t{total}\t{total // count // 2}\t{total // count * 3}\t0\t{count * 4000}\t{told}\n")
        for number, name in enumerate(COLLECTIVES):
            total = together * (3 - number) // 6
            rows.append(f"{at}\tkernel\t\t{name}\t300\t{total}\t{total // 600}\t{total // 100}\t0\t1200000\t{told}\n")
        rows.append(f"{at}\tcopy\tHtoD\t\t500\t{10**9}\t900\t90000\t{500 << 20}\t400000\t{told}\n")


class Skewed(Host):
    """A host whose wall clock is wrong by `wrong` seconds, from `set_at` (in nanoseconds since 1970) on by `set_by` more, and whose
    CLOCK_MONOTONIC gains `rate` of what passes. What it knows of the server's clock is wrong by `error_ns`, which is within BOUND_NS."""
    BOUND_NS, WANDER_PPB = 300000, 15000

    def __init__(self, *arguments, wrong=0, rate=0, error_ns=0, set_at=0, set_by=0, **more):
        super().__init__(*arguments, **more)
        self.set_at, self.set_by = set_at, set_by
        self.wrong, self.rate, self.error_ns, self.begin = wrong, rate, error_ns, self.start
        self.start += wrong  # of rows: as it tells it

    def monotonic(self, ns):
        """What its clock shows at a time in nanoseconds since 1970."""
        passed = ns - self.begin * 10**9
        return self.first * 10**9 + passed + int(passed * self.rate)

    def told(self, ns):
        """As a DateTime of a row."""
        return (self.monotonic(ns) + (self.start - self.first) * 10**9) // 10**9

    def clock(self, ns):
        at = self.monotonic(ns)
        wall = (self.start - self.first + (self.set_by if ns >= self.set_at else 0)) * 10**9
        return (f"{self.key}\tch1\t{at}\t{self.told(ns)}\t{ns - at + self.error_ns}\t{int(-self.rate * 1e9)}\t{self.BOUND_NS}\t{self.WANDER_PPB}"
                f"\t{self.BOUND_NS}\t{wall}\t{at}\n")

    def kernel(self, gpu, stream, name, start, end, number):
        """An op: launched 50 µs before it starts."""
        launch, back, begun, ended = (self.monotonic(ns) for ns in (start - 50000, start - 44000, start, end))
        return (f"{self.key}\t{1000 + gpu}\t{self.told(start)}\tlaunch\tcuLaunchKernel\t{name}\t{gpu}\t{10 * gpu + stream}\t{5000 + gpu}\t{launch}\t{back}"
                f"\t{begun}\t{ended}\t5\t{number}\t{launch}\n")


def train(hosts, begin_ns, steps, together=True, seed=1):
    """Rows of `op` of ranks that compute, and meet in a collective. Gives them, and by step when each rank left it."""
    chance, rows, ends, at = random.Random(seed), [], [], begin_ns
    for step in range(steps):
        ranks = [(host, gpu) for host in hosts for gpu in range(host.gpus)]
        arrive = [at + 8000000 + chance.randrange(2000000) for _ in ranks]
        last = max(arrive) + 60000
        leave = [last + chance.randrange(8000) for _ in ranks]
        for (host, gpu), begun, ended in zip(ranks, arrive, leave):
            rows.append(host.kernel(gpu, 3, KERNELS[0], at, begun - 1000, 2 * step + 1))
            if together:
                rows.append(host.kernel(gpu, 4, COLLECTIVES[step % 2], begun, ended, 2 * step + 2))
        ends.append(dict(zip([host.number * host.gpus + gpu for host, gpu in ranks], leave)))
        at = last + 3000000 + chance.randrange(2000000)
    return "".join(rows), ends


def insert(server, database, table, text, **settings):
    columns = ", ".join(COLUMNS[table].split())
    return server.ask(f"INSERT INTO {database}.{table} ({columns}) FORMAT TabSeparated", body=text.encode(), **settings)


def fill(server, database, hosts, minutes, **settings):
    """All of it, in one insertion a table."""
    text = {}
    for host in hosts:
        for table, row in host.identity(host.start + 60 * minutes):
            text[table] = text.get(table, "") + row
        for minute in range(minutes):
            for table, rows in host.minute(minute).items():
                text[table] = text.get(table, "") + rows
    for table, rows in text.items():
        insert(server, database, table, rows, **settings)
