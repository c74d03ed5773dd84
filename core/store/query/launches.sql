-- launches by function and, where sampled, by stack
--
-- options: pid window
-- window: 3600 s
-- limit: 100
-- about: calls stacks samples
-- nothing: Nothing was launched
-- search: fn
-- columns:
--   pid      id
--   comm     text
--   fn       text
--   device   id
--   calls    integer
--   errors   integer
--   captured integer
--   stack    stack
WITH s AS (
	SELECT process, fn, device, stack, sum(calls) AS calls,
		@ERRORS@, sum(captured) AS captured
	FROM rollup
	WHERE @IN_WINDOW@
	AND freed = 0 AND kind IN (SELECT id FROM kind WHERE name = 'launch')
	GROUP BY process, fn, device, stack
) SELECT p.pid, p.comm, @FUNCTION@, nullif(device, -1),
	calls, errors, captured, stack
FROM s
JOIN process p ON p.id = s.process
LEFT JOIN function f ON f.id = s.fn
ORDER BY calls DESC, p.pid, 3
LIMIT :limit
