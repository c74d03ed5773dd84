-- devices of processes in the exact tier, and their users
--
-- options: pid device
-- limit: 1000
-- about: pools
-- records: all
-- nothing: No device was seen
-- search: name
-- columns:
--   device          id
--   name            text
--   uuid            text
--   memory_bytes    bytes
--   multiprocessors integer
--   clock_khz       integer
--   processes       integer
--   pids            text
WITH d AS (
	SELECT ordinal, uuid, max(d.name) AS name,
		max(memory_bytes) AS memory_bytes,
		max(multiprocessors) AS multiprocessors,
		max(clock_khz) AS clock_khz,
		count(*) FILTER (WHERE @RUNNING@) AS processes,
		group_concat(p.pid, ' ') FILTER (WHERE @RUNNING@) AS pids
	FROM (SELECT * FROM device ORDER BY process) d
	JOIN process p ON p.id = d.process
	WHERE p.boot = :boot AND multiprocessors > 0 AND @ASKED@
	AND (:device IS NULL OR ordinal = :device)
	GROUP BY ordinal, uuid
) SELECT ordinal, name.text, uuid, memory_bytes, multiprocessors,
	clock_khz, processes, pids
FROM d
LEFT JOIN name ON name.id = d.name
ORDER BY ordinal, uuid
LIMIT :limit
