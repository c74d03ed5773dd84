-- failed calls by function, code and stack
--
-- options: pid window by-place
-- window: 3600 s
-- limit: 1000
-- about: calls results stacks
-- nothing: No call failed
-- search: fn
-- columns:
--   pid     id
--   comm    text
--   fn      text
--   code    integer
--   name    text
--   calls   integer
--   last_ns time
--   where   text
--   stack   stack
WITH s AS (
	SELECT process, fn, result, stack_key(stack, :by) AS stack, sum(calls) AS calls,
		max(second) AS last
	FROM rollup
	WHERE @IN_WINDOW@
	AND freed = 0 AND result NOT IN (0, 600)
	GROUP BY process, fn, result, 4
) SELECT p.pid, p.comm, @FUNCTION@, result, result_name(result), calls,
	last * 1000000000, stack_where(stack), @STACK_SHOWN@
FROM s
JOIN process p ON p.id = s.process
LEFT JOIN function f ON f.id = s.fn
ORDER BY calls DESC, p.pid, 3, 4
LIMIT :limit
