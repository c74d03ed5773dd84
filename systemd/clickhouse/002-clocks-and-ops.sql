-- The clocks of hosts, and single operations of windows that somebody asked for.

-- What a host's clock is against a server's: at CLOCK_MONOTONIC t of the boot, the server's clock is at
-- t + offset_ns + drift_ppb * (t - at_ns) / 1e9 nanoseconds since 1970, give or take
-- bound_ns + drift_bound_ppb * abs(t - at_ns) / 1e9.
CREATE TABLE IF NOT EXISTS clock
(
	host LowCardinality(String),
	boot LowCardinality(String),
	at_ns UInt64 CODEC(Delta(8), LZ4),
	time DateTime('UTC') CODEC(Delta(4), LZ4),
	server LowCardinality(String),
	offset_ns Int64 CODEC(Delta(8), LZ4),
	drift_ppb Int64 CODEC(T64, LZ4),
	bound_ns UInt64 CODEC(T64, LZ4),
	drift_bound_ppb UInt64 CODEC(T64, LZ4),
	round_trip_ns UInt64 CODEC(T64, LZ4),
	told_ns UInt64 CODEC(Delta(8), LZ4)
)
ENGINE = ReplacingMergeTree(told_ns)
PARTITION BY toYYYYMMDD(time)
ORDER BY (toStartOfHour(time), host, boot, at_ns)
TTL time + INTERVAL 30 DAY
SETTINGS non_replicated_deduplication_window = 10000;

-- An operation as the daemon's table `op` has it. `time` is that of its start.
CREATE TABLE IF NOT EXISTS op
(
	host LowCardinality(String),
	boot LowCardinality(String),
	process Int64,
	time DateTime('UTC') CODEC(Delta(4), LZ4),
	kind LowCardinality(String),
	fn LowCardinality(String),
	detail LowCardinality(String),
	name LowCardinality(String),
	device Int32,
	stream Int64 CODEC(T64, LZ4),
	tid UInt32 CODEC(T64, LZ4),
	start_ns UInt64 CODEC(Delta(8), LZ4),
	end_ns UInt64 CODEC(Delta(8), LZ4),
	gpu_start_ns UInt64 CODEC(Delta(8), LZ4),
	gpu_end_ns UInt64 CODEC(Delta(8), LZ4),
	seen_ns UInt64 CODEC(Delta(8), LZ4),
	result Int32 CODEC(T64, LZ4),
	bytes UInt64 CODEC(T64, LZ4),
	live_bytes UInt64 CODEC(T64, LZ4),
	flags UInt32 CODEC(T64, LZ4),
	correlation UInt64 CODEC(Delta(8), LZ4),
	node UInt64 CODEC(T64, LZ4),
	stack Int64 CODEC(T64, LZ4),
	told_ns UInt64 CODEC(Delta(8), LZ4)
)
ENGINE = ReplacingMergeTree(told_ns)
PARTITION BY toYYYYMMDD(time)
ORDER BY (toStartOfHour(time), host, boot, process, start_ns, tid, kind, fn, detail, stream, device, gpu_start_ns, correlation, node, name)
TTL time + INTERVAL 3 DAY
SETTINGS non_replicated_deduplication_window = 10000;
