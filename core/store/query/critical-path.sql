-- what the program waited for, step by step, from start to end
--
-- options: pid window by-stack
-- window: 10 s
-- limit: 100
-- about: calls bounds times
-- records: kernels copies
-- nothing: Nothing was called
-- search: name
-- columns:
--   pid      id
--   comm     text
--   what     text
--   count    integer
--   total_ns nanoseconds
--   share    share
--   idle_ns  nanoseconds
--   name     text
--   stack    stack
WITH k AS MATERIALIZED (
	SELECT process, what, kind, detail, fn, name,
		iif(:by = 1, stack, 0) AS stack,
		sum(count) AS count, sum(ns) AS ns, sum(idle_ns) AS idle
	FROM critical_path(:boot, :since, :until, :pid)
	WHERE @OF_ASKED@
	GROUP BY process, what, kind, detail, fn, name, 7
), whole AS (
	SELECT process, sum(ns) AS path_ns FROM k GROUP BY process
) SELECT p.pid, p.comm, what, count, ns, share(ns, path_ns), idle,
	coalesce(name.text, CASE WHEN k.name <> 0 THEN printf('kernel %016x', k.name) END,
	d.name, f.name), stack
FROM k
JOIN whole USING (process)
JOIN process p ON p.id = k.process
LEFT JOIN name ON name.id = k.name
LEFT JOIN detail d ON d.kind = k.kind AND d.id = k.detail
LEFT JOIN function f ON f.id = k.fn
ORDER BY ns DESC, count DESC, p.pid, what, 8
LIMIT :limit
