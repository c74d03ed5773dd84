-- a recording and its contents, as facts: each with the unit of its value
--
-- about: calls memory stacks bounds times states pools collectives ranges
-- flags: internal
-- columns:
--   section text
--   name    text
--   unit    text
--   value   text
WITH r AS (
	SELECT max(value) FILTER (WHERE key = 'file_bytes') AS bytes,
		coalesce(max(value) FILTER (WHERE key = 'file_damaged_byte'),
			max(value) FILTER (WHERE key = 'file_used_bytes')) AS used,
		max(value) FILTER (WHERE key = 'file_state') AS state,
		max(value) FILTER (WHERE key = 'since_ns') AS since
	FROM recording
), c AS (
	SELECT count(*) AS chunks, coalesce(sum(ops), 0) AS ops, min(first_ns) AS first FROM chunk
), t AS (
	SELECT :now AS until, coalesce(since, first, :now) AS since FROM r, c
), fact(place, section, name, unit, value, rank) AS (
	SELECT 0, 'recording', 'state', iif(state = 'whole', 'text', 'warning'),
		iif(state = 'whole', 'whole', state || ' at byte ' || used), 0 FROM r
	UNION ALL
	SELECT 1, 'recording', replace(key, '_', ' '), 'text', value, key FROM recording
	WHERE key NOT LIKE 'file!_%' ESCAPE '!'
	AND key NOT IN ('since_ns', 'until_ns', 'told_ns', 'wall_offset_ns')
	UNION ALL SELECT 2, 'recording', 'from', 'time', since, 0 FROM t
	UNION ALL SELECT 3, 'recording', 'until', 'time', until, 0 FROM t
	UNION ALL SELECT 4, 'recording', 'duration', 'ns', max(until - since, 0), 0 FROM t
	UNION ALL SELECT 5, 'size', 'file', 'bytes', bytes, 0 FROM r
	UNION ALL SELECT 6, 'size', 'operations', 'count', ops, 0 FROM c
	UNION ALL
	SELECT 7, 'size', 'bytes per operation', 'text', printf('%.2f', 1.0 * bytes / ops), 0
	FROM r, c WHERE ops > 0
	UNION ALL SELECT 8, 'contents', 'chunks', 'count', chunks, 0 FROM c
	UNION ALL SELECT 9, 'contents', 'streams', 'count', count(*), 0 FROM stream
	UNION ALL SELECT 10, 'contents', 'devices', 'count', count(*), 0 FROM device
	UNION ALL SELECT 11, 'contents', 'names', 'count', count(*), 0 FROM name
	UNION ALL SELECT 12, 'contents', 'stacks', 'count', count(*), 0 FROM stack
	UNION ALL
	SELECT 13, 'operations', coalesce(k.name, 'kind ' || c.kind), 'count', sum(c.ops),
		row_number() OVER (ORDER BY sum(c.ops) DESC, c.kind DESC)
	FROM chunk c LEFT JOIN kind k ON k.id = c.kind GROUP BY c.kind
	UNION ALL
	SELECT 14, 'processes', CAST(pid AS TEXT), 'text',
		coalesce(comm, '?') || iif(id IN (SELECT process FROM collect), ', exact', ', probe')
		|| iif(coalesce(exit_ns, 0), ', ended', '') || coalesce(': ' || command, ''), id
	FROM process
)
SELECT section, name, unit, value FROM fact
ORDER BY place, rank
LIMIT :limit
