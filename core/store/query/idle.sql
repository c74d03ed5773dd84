-- device time: when kernels ran, and why not
--
-- options: pid window device
-- window: 3600 s
-- limit: 1000
-- about: states
-- records: kernels copies
-- nothing: No device was used
-- columns:
--   pid         id
--   comm        text
--   device      id
--   state       text
--   total_ns    nanoseconds
--   share       share
--   observed_ns nanoseconds
--   text        text
WITH s AS (
	SELECT process, device, state, sum(ns) AS ns
	FROM busy
	WHERE @IN_WINDOW@
	AND (:device IS NULL OR device = :device)
	GROUP BY process, device, state
), d AS (
	SELECT process, device, sum(ns) AS observed_ns
	FROM s
	GROUP BY process, device
), t(state, place, text) AS (
	@DEVICE_STATES@
) SELECT p.pid, p.comm, nullif(s.device, -1), n.name, s.ns,
	share(s.ns, observed_ns), observed_ns, t.text
FROM s
JOIN d USING (process, device)
JOIN process p ON p.id = s.process
JOIN detail n ON n.id = s.state
AND n.kind = (SELECT id FROM kind WHERE name = 'state')
JOIN t ON t.state = s.state
ORDER BY p.pid, p.id, s.device, t.place
LIMIT :limit
