-- memory and copies that could have been saved, by stack
--
-- options: pid window by-place all
-- window: 3600 s
-- limit: 100
-- about: calls memory stacks samples bounds
-- nothing: Nothing was wasted for certain
-- columns:
--   pid       id
--   comm      text
--   pattern   text
--   certainty text
--   kind      text
--   fn        text
--   device    id
--   count     integer
--   bytes     bytes
--   lost_ns   nanoseconds
--   held_ns   nanoseconds
--   where     text
--   advice    text
--   stack     stack
WITH found AS (
	SELECT process, pattern, certainty, kind, detail, fn, device,
		stack_key(stack, :by) AS stack, sum(count) AS count, sum(bytes) AS bytes,
		sum(lost_ns) AS lost, sum(held_ns) AS held
	FROM waste(:boot, :since, :until, :pid)
	WHERE @OF_ASKED@ AND (:all OR certainty > 1)
	GROUP BY process, pattern, certainty, kind, detail, fn, device, 8
) SELECT p.pid, p.comm, waste_pattern(pattern), certainty(certainty), d.name, @FUNCTION@,
	nullif(device, -1), count, bytes, nullif(lost, 0), nullif(held, 0), stack_where(stack),
	waste_advice(pattern), @STACK_SHOWN@
FROM found
JOIN process p ON p.id = process
LEFT JOIN detail d ON d.kind = found.kind AND d.id = detail
LEFT JOIN function f ON f.id = fn
ORDER BY certainty DESC, lost DESC, bytes DESC, p.pid, pattern, fn, stack
LIMIT :limit
