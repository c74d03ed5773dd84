-- for tracesmith-ship: stacks that were written after a commit, each with the number of its own
--
-- options: boot after
-- flags: internal
-- columns:
--   process  id
--   stack    id
--   first_ns time
--   where    text
--   frames   text
--   batch    integer
SELECT s.process, s.id, p.first_ns, stack_where(s.id), (
	SELECT group_concat(text, char(10)) FROM (
		SELECT coalesce(symbol, file || printf('+0x%x', offset), printf('0x%x', address))
			|| coalesce(' (' || source || coalesce(':' || line, '') || ')', '') AS text
		FROM frame WHERE frame.stack = s.id ORDER BY depth)
	), s.batch
FROM process p CROSS JOIN stack s ON s.process = p.id
WHERE p.boot = :boot AND s.batch > :after
ORDER BY s.batch
LIMIT :limit
