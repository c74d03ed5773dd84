-- for 'tsctl oom show': the stacks that held most when an allocation failed
--
-- options: number
-- limit: 1000
-- about: memory stacks
-- flags: internal
-- columns:
--   pid          id
--   comm         text
--   kind         text
--   fn           text
--   bytes        bytes
--   count        integer
--   recent_bytes bytes
--   where        text
--   stack        stack
SELECT p.pid, p.comm, k.name, coalesce(f.name, 'function ' || s.fn), s.bytes, s.count, s.recent_bytes,
	stack_where(s.stack), s.stack
FROM oom o
JOIN oom_stack s ON s.oom = o.id AND s.take = o.take
JOIN process p ON p.id = s.process
LEFT JOIN function f ON f.id = s.fn
LEFT JOIN memory_kind k ON k.id = s.kind
WHERE o.id = :number AND p.boot = :boot
ORDER BY s.process <> o.process, s.bytes DESC, s.rank
LIMIT :limit
