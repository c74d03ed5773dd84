-- streams that live or were used in the window
--
-- options: pid window device stream
-- window: 3600 s
-- limit: 1000
-- about: calls
-- nothing: No stream was used
-- columns:
--   stream       id
--   pid          id
--   comm         text
--   device       id
--   handle       handle
--   tid          id
--   non_blocking integer
--   created_ns   time
--   destroyed_ns time
--   launches     integer
--   transfers    integer
--   bytes        bytes
--   calls        integer
WITH each AS (
	SELECT stream, kind, sum(calls) AS calls, sum(bytes) AS bytes,
		sum(calls - captured) FILTER (WHERE result = 0) AS submitted
	FROM rollup
	WHERE @IN_WINDOW@
	AND freed = 0
	GROUP BY second, process, kind, fn, detail, device, stream
), s AS (
	SELECT stream, sum(calls) AS calls,
		sum(submitted) FILTER (WHERE kind IN (SELECT id FROM kind WHERE name = 'launch'))
		AS launches,
		sum(submitted) FILTER (WHERE kind IN (SELECT id FROM kind WHERE name IN ('copy', 'set')))
		AS transfers,
		sum(bytes) FILTER (WHERE kind IN (SELECT id FROM kind WHERE name IN ('copy', 'set'))) AS bytes
	FROM each
	WHERE stream <> 0
	GROUP BY stream
) SELECT st.id, p.pid, p.comm, nullif(st.device, -1), st.handle,
	nullif(st.tid, 0), st.non_blocking,
	nullif(st.created_ns, 0), nullif(st.destroyed_ns, 0),
	coalesce(launches, 0), coalesce(transfers, 0),
	coalesce(bytes, 0), coalesce(calls, 0)
FROM stream st
JOIN process p ON p.id = st.process
LEFT JOIN s ON s.stream = st.id
WHERE p.boot = :boot AND @ASKED@
AND (:device IS NULL OR st.device = :device)
AND (:stream IS NULL OR st.id = :stream)
AND (s.stream IS NOT NULL
OR coalesce(st.destroyed_ns, 0) = 0 AND @RUNNING@)
ORDER BY calls DESC, st.id
LIMIT :limit
