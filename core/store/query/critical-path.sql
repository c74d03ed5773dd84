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
--   text     text
--   stack    stack
WITH k AS MATERIALIZED (
	SELECT process, what, kind, detail, fn, name,
		iif(:by = 1, stack, 0) AS stack,
		sum(count) AS count, sum(ns) AS ns, sum(idle_ns) AS idle
	FROM critical_path(:boot, :since, :until, :pid)
	WHERE @OF_ASKED@
	GROUP BY process, what, kind, detail, fn, name, 7
), whole AS MATERIALIZED (
	SELECT process, sum(ns) AS path_ns FROM k GROUP BY process
-- While anything was seen of it at all.
), unseen AS MATERIALIZED (
	SELECT DISTINCT whole.process
	FROM whole
	JOIN loss ON loss.process IN (whole.process, 0)
	WHERE boot = :boot AND @IS_CALL_UNSEEN@ AND start_ns <= :until AND end_ns >= max(:since,
		(SELECT min(first_ns) FROM chunk WHERE chunk.process = whole.process))
) SELECT p.pid, p.comm, what, count, ns, share(ns, path_ns), idle,
	coalesce(name.text, CASE WHEN k.name <> 0 THEN printf('kernel %016x', k.name) END,
	d.name, f.name),
	CASE WHEN what = 'host' AND k.process IN unseen
		THEN 'calls in this time may not have been seen' END,
	stack
FROM k
JOIN whole USING (process)
JOIN process p ON p.id = k.process
LEFT JOIN name ON name.id = k.name
LEFT JOIN detail d ON d.kind = k.kind AND d.id = k.detail
LEFT JOIN function f ON f.id = k.fn
ORDER BY ns DESC, count DESC, p.pid, what, 8
LIMIT :limit
