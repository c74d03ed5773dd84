-- Calls of NCCL by communicator.

-- Of a minute. `communicator` is the same in all of its ranks, '' if its start was not seen; `number` tells
-- apart those of a process, and `size` is how many ranks it has. A run is what went to the device at once,
-- and has less than 2^log2_bytes bytes, as the calls count them.
CREATE TABLE IF NOT EXISTS collective
(
	host LowCardinality(String),
	boot LowCardinality(String),
	process Int64,
	time DateTime('UTC') CODEC(Delta(4), LZ4),
	second UInt32 CODEC(Delta(4), LZ4),
	number UInt32,
	communicator String,
	rank Int32,
	size UInt32,
	operation LowCardinality(String),
	type LowCardinality(String),
	reduction LowCardinality(String),
	peer Int32,
	log2_bytes UInt8,
	calls UInt64 CODEC(T64, LZ4),
	bytes UInt64 CODEC(T64, LZ4),
	runs UInt64 CODEC(T64, LZ4),
	shared UInt64 CODEC(T64, LZ4),
	timed UInt64 CODEC(T64, LZ4),
	timed_bytes UInt64 CODEC(T64, LZ4),
	total_ns UInt64 CODEC(T64, LZ4),
	min_ns UInt64 CODEC(T64, LZ4),
	max_ns UInt64 CODEC(T64, LZ4),
	told_ns UInt64 CODEC(Delta(8), LZ4)
)
ENGINE = ReplacingMergeTree(told_ns)
PARTITION BY toYYYYMMDD(time)
ORDER BY (toStartOfHour(time), host, boot, process, number, operation, type, reduction, peer, log2_bytes, second)
TTL time + INTERVAL 30 DAY
SETTINGS non_replicated_deduplication_window = 10000;
