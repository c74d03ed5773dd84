-- The tables of the fleet: what the daemons of many hosts have, in one ClickHouse.
--
-- As it stands this is for one node of today. `tsctl fleet init` makes of it what the server at hand
-- can do: a server from before 19.13 gets no LowCardinality, CODEC, TTL and SETTINGS, a cluster a
-- replicated table NAME_local on each node and a distributed NAME over them, sharded by host.
--
-- A row that is sent again replaces itself: all columns of its key and its `time` must be the same,
-- and of those the one with the largest told_ns stays. Queries read with FINAL.
--
-- Columns ..._ns are CLOCK_MONOTONIC of the row's boot. `time` is that plus host.wall_offset_ns, which
-- never changes within a boot. 0, -1 and '' mean unknown, as the column's table in docs/fleet.md says.

-- The steps that were applied; the number of a step is that of its file.
CREATE TABLE IF NOT EXISTS version
(
	version UInt32,
	time DateTime('UTC'),
	applied_by String
)
ENGINE = ReplacingMergeTree()
ORDER BY version;

CREATE TABLE IF NOT EXISTS host
(
	host String,
	boot String,
	machine String,
	time DateTime('UTC'),
	seen DateTime('UTC'),
	lag_s UInt32,
	tracesmith LowCardinality(String),
	kernel LowCardinality(String),
	driver LowCardinality(String),
	cpus UInt32,
	gpus UInt32,
	wall_offset_ns Int64,
	told_ns UInt64
)
ENGINE = ReplacingMergeTree(told_ns)
ORDER BY (host, boot)
TTL seen + INTERVAL 400 DAY
SETTINGS non_replicated_deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS process
(
	host String,
	boot String,
	process Int64,
	time DateTime('UTC'),
	pid UInt32,
	ns_pid UInt32,
	ppid UInt32,
	uid UInt32,
	user LowCardinality(String),
	comm String,
	command String,
	container String,
	pod String,
	namespace LowCardinality(String),
	slurm_job String,
	slurm_step String,
	job String,
	rank Int32,
	local_rank Int32,
	world_size Int32,
	tier LowCardinality(String),
	first_ns UInt64,
	exit_ns UInt64,
	exit_code Int32,
	told_ns UInt64
)
ENGINE = ReplacingMergeTree(told_ns)
ORDER BY (host, boot, process)
TTL time + INTERVAL 400 DAY
SETTINGS non_replicated_deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS device
(
	host String,
	boot String,
	process Int64,
	device Int32,
	time DateTime('UTC'),
	uuid String,
	name LowCardinality(String),
	memory_bytes UInt64,
	multiprocessors UInt32,
	clock_khz UInt32,
	told_ns UInt64
)
ENGINE = ReplacingMergeTree(told_ns)
ORDER BY (host, boot, process, device)
TTL time + INTERVAL 400 DAY
SETTINGS non_replicated_deduplication_window = 10000;

-- Calls of a minute. `second` is the minute's start.
CREATE TABLE IF NOT EXISTS rollup
(
	host LowCardinality(String),
	boot LowCardinality(String),
	process Int64,
	time DateTime('UTC') CODEC(Delta(4), LZ4),
	second UInt32 CODEC(Delta(4), LZ4),
	kind LowCardinality(String),
	fn LowCardinality(String),
	detail LowCardinality(String),
	device Int32,
	result Int32,
	freed UInt8,
	calls UInt64 CODEC(T64, LZ4),
	timed UInt64 CODEC(T64, LZ4),
	captured UInt64 CODEC(T64, LZ4),
	total_ns UInt64 CODEC(T64, LZ4),
	min_ns UInt64 CODEC(T64, LZ4),
	max_ns UInt64 CODEC(T64, LZ4),
	bytes UInt64 CODEC(T64, LZ4),
	told_ns UInt64 CODEC(Delta(8), LZ4)
)
ENGINE = ReplacingMergeTree(told_ns)
PARTITION BY toYYYYMMDD(time)
ORDER BY (toStartOfHour(time), host, boot, process, kind, fn, detail, device, result, freed, second)
TTL time + INTERVAL 30 DAY
SETTINGS non_replicated_deduplication_window = 10000;

-- What the device did in a minute, by name of the kernel.
CREATE TABLE IF NOT EXISTS work
(
	host LowCardinality(String),
	boot LowCardinality(String),
	process Int64,
	time DateTime('UTC') CODEC(Delta(4), LZ4),
	second UInt32 CODEC(Delta(4), LZ4),
	device Int32,
	kind LowCardinality(String),
	detail LowCardinality(String),
	name LowCardinality(String),
	count UInt64 CODEC(T64, LZ4),
	total_ns UInt64 CODEC(T64, LZ4),
	min_ns UInt64 CODEC(T64, LZ4),
	max_ns UInt64 CODEC(T64, LZ4),
	bytes UInt64 CODEC(T64, LZ4),
	delay_ns UInt64 CODEC(T64, LZ4),
	told_ns UInt64 CODEC(Delta(8), LZ4)
)
ENGINE = ReplacingMergeTree(told_ns)
PARTITION BY toYYYYMMDD(time)
ORDER BY (toStartOfHour(time), host, boot, process, device, kind, detail, name, second)
TTL time + INTERVAL 30 DAY
SETTINGS non_replicated_deduplication_window = 10000;

-- How long each device was in which state in a minute.
CREATE TABLE IF NOT EXISTS busy
(
	host LowCardinality(String),
	boot LowCardinality(String),
	process Int64,
	time DateTime('UTC') CODEC(Delta(4), LZ4),
	second UInt32 CODEC(Delta(4), LZ4),
	device Int32,
	state LowCardinality(String),
	ns UInt64 CODEC(T64, LZ4),
	told_ns UInt64 CODEC(Delta(8), LZ4)
)
ENGINE = ReplacingMergeTree(told_ns)
PARTITION BY toYYYYMMDD(time)
ORDER BY (toStartOfHour(time), host, boot, process, device, state, second)
TTL time + INTERVAL 30 DAY
SETTINGS non_replicated_deduplication_window = 10000;

-- What each process held at the end of a minute.
CREATE TABLE IF NOT EXISTS memory
(
	host LowCardinality(String),
	boot LowCardinality(String),
	process Int64,
	time DateTime('UTC') CODEC(Delta(4), LZ4),
	second UInt32 CODEC(Delta(4), LZ4),
	device Int32,
	kind LowCardinality(String),
	live_bytes UInt64 CODEC(T64, LZ4),
	live_count UInt64 CODEC(T64, LZ4),
	peak_bytes UInt64 CODEC(T64, LZ4),
	told_ns UInt64 CODEC(Delta(8), LZ4)
)
ENGINE = ReplacingMergeTree(told_ns)
PARTITION BY toYYYYMMDD(time)
ORDER BY (toStartOfHour(time), host, boot, process, device, kind, second)
TTL time + INTERVAL 30 DAY
SETTINGS non_replicated_deduplication_window = 10000;

-- The latest verdict on what each stack allocates.
CREATE TABLE IF NOT EXISTS growth
(
	host String,
	boot String,
	process Int64,
	stack Int64,
	fn LowCardinality(String),
	kind LowCardinality(String),
	device Int32,
	time DateTime('UTC'),
	seen DateTime('UTC'),
	verdict LowCardinality(String),
	confidence UInt32,
	kept UInt64,
	kept_bytes UInt64,
	bytes_per_hour Int64,
	bytes_per_step Int64,
	allocations UInt64,
	frees UInt64,
	told_ns UInt64
)
ENGINE = ReplacingMergeTree(told_ns)
ORDER BY (host, boot, process, stack, fn, kind, device)
TTL seen + INTERVAL 90 DAY
SETTINGS non_replicated_deduplication_window = 10000;

-- Stacks that other rows name. Frames from the innermost one out.
CREATE TABLE IF NOT EXISTS stack
(
	host String,
	boot String,
	process Int64,
	stack Int64,
	time DateTime('UTC'),
	site String,
	frames Array(String),
	told_ns UInt64
)
ENGINE = ReplacingMergeTree(told_ns)
ORDER BY (host, boot, process, stack)
TTL time + INTERVAL 90 DAY
SETTINGS non_replicated_deduplication_window = 10000;

CREATE TABLE IF NOT EXISTS loss
(
	host LowCardinality(String),
	boot LowCardinality(String),
	process Int64,
	time DateTime('UTC'),
	second UInt32,
	reason LowCardinality(String),
	count UInt64,
	start_ns UInt64,
	end_ns UInt64,
	told_ns UInt64
)
ENGINE = ReplacingMergeTree(told_ns)
PARTITION BY toYYYYMM(time)
ORDER BY (toStartOfHour(time), host, boot, process, reason, second)
TTL time + INTERVAL 90 DAY
SETTINGS non_replicated_deduplication_window = 10000;

-- What tracing costs each process, as last known.
CREATE TABLE IF NOT EXISTS price
(
	host String,
	boot String,
	process Int64,
	part LowCardinality(String),
	time DateTime('UTC'),
	seen DateTime('UTC'),
	measured UInt8,
	budget_ppm UInt32,
	share_ppm UInt32,
	cost_ppm Int64,
	cost_low_ppm Int64,
	cost_high_ppm Int64,
	told_ns UInt64
)
ENGINE = ReplacingMergeTree(told_ns)
ORDER BY (host, boot, process, part)
TTL seen + INTERVAL 90 DAY
SETTINGS non_replicated_deduplication_window = 10000;

-- What went wrong at a moment, such as an allocation that failed for lack of memory.
CREATE TABLE IF NOT EXISTS incident
(
	host String,
	boot String,
	kind LowCardinality(String),
	id Int64,
	time DateTime('UTC'),
	process Int64,
	device Int32,
	stack Int64,
	time_ns UInt64,
	last_ns UInt64,
	bytes UInt64,
	text String,
	detail String,
	told_ns UInt64
)
ENGINE = ReplacingMergeTree(told_ns)
ORDER BY (host, boot, kind, id)
TTL time + INTERVAL 400 DAY
SETTINGS non_replicated_deduplication_window = 10000;
