-- Windows of single operations that somebody asked hosts for.

-- It goes from `seconds` before `time` until the shipper of the host reads this, if the host allows it.
CREATE TABLE IF NOT EXISTS request
(
	host String,
	time DateTime('UTC'),
	seconds UInt32,
	asked_by String
)
ENGINE = ReplacingMergeTree(seconds)
ORDER BY (host, time)
TTL time + INTERVAL 30 DAY
SETTINGS non_replicated_deduplication_window = 10000;
