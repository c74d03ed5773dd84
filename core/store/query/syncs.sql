-- who waits where and how long
--
-- options: pid window by-place
-- window: 3600 s
-- limit: 100
-- about: calls stacks samples
-- nothing: Nothing was waited for
-- search: fn
-- columns:
--   pid      id
--   comm     text
--   fn       text
--   calls    integer
--   errors   integer
--   total_ns nanoseconds
--   mean_ns  nanoseconds
--   max_ns   nanoseconds
--   where    text
--   stack    stack
WITH s AS (
	SELECT process, fn, stack_key(stack, :by) AS stack, sum(calls) AS calls, @ERRORS@, @TIMES@
	FROM rollup
	WHERE @IN_WINDOW@
	AND freed = 0 AND kind IN (SELECT id FROM kind WHERE name = 'sync')
	GROUP BY process, fn, 3
) SELECT p.pid, p.comm, @FUNCTION@, calls, errors,
	CASE WHEN timed > 0 THEN total_ns END, CASE WHEN timed > 0 THEN total_ns / timed END,
	CASE WHEN timed > 0 THEN max_ns END, stack_where(stack), @STACK_SHOWN@
FROM s
JOIN process p ON p.id = s.process
LEFT JOIN function f ON f.id = s.fn
ORDER BY total_ns DESC, calls DESC, p.pid, 3
LIMIT :limit
