-- for the page: which addresses allocations took and frees gave back, and which failed
--
-- What is live is there as allocated, too.
--
-- options: pid window
-- flags: internal
-- about: memory
-- columns:
--   at_ns   time
--   process id
--   device  integer
--   address integer
--   bytes   bytes
--   stack   integer
--   tensor  integer
--   freed   integer
--   failed  integer
SELECT iif(kind = 'alloc', coalesce(end_ns, start_ns), start_ns), process, device, address, bytes,
	coalesce(stack, 0), detail = 'tensor', kind = 'free', result <> 0
FROM op
WHERE @OF_WINDOW@ AND start_ns BETWEEN :since AND :until
AND kind IN ('alloc', 'free') AND detail IN (@ADDRESS_MEMORY@) AND bytes > 0
AND (result = 0 AND address <> 0 OR kind = 'alloc' AND result_name(result) = 'CUDA_ERROR_OUT_OF_MEMORY')
UNION ALL
SELECT max(a.start_ns, coalesce(a.end_ns, 0)), a.process, a.device, a.address, a.bytes,
	coalesce(a.stack, 0), k.name = 'tensor', 0, 0
FROM allocation a
JOIN memory_kind k ON k.id = a.kind
WHERE a.process IN (SELECT p.id FROM process p WHERE @IN_LIFE@ AND @RUNNING@)
AND k.name IN (@ADDRESS_MEMORY@) AND a.bytes > 0
ORDER BY 1
LIMIT :limit
