-- launches by function and, where sampled, by stack
--
-- options: pid window
-- window: 3600 s
-- limit: 100
-- about: calls stacks samples
-- nothing: Nothing was launched
-- search: fn
-- columns:
--   pid        id
--   comm       text
--   fn         text
--   device     id
--   calls      integer
--   plus_minus integer
--   watched    share
--   errors     integer
--   captured   integer
--   stack      stack
WITH s AS (
	SELECT process, fn, device, stack, sum(calls) AS calls,
		@ERRORS@, sum(captured) AS captured
	FROM rollup
	WHERE @IN_WINDOW@
	AND freed = 0 AND kind IN (SELECT id FROM kind WHERE name = 'launch')
	GROUP BY process, fn, device, stack
), @WINDOWS@
SELECT p.pid, p.comm, @FUNCTION@, nullif(device, -1),
	@ESTIMATED@, CAST(round(calls * error) AS INTEGER), share(watched_ns, all_ns),
	errors, captured, stack
FROM s
JOIN process p ON p.id = s.process
LEFT JOIN function f ON f.id = s.fn
LEFT JOIN windows ON windows.process = s.process AND f.hot
ORDER BY 5 DESC, p.pid, 3
LIMIT :limit
