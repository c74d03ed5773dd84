-- operations of a process
--
-- internal
SELECT kind, fn, detail, if(name = '', 0, cityHash64(name)), device, stream, tid, start_ns, end_ns,
	gpu_start_ns, gpu_end_ns, seen_ns, result, bytes, live_bytes, flags, correlation, node
FROM op FINAL
WHERE :in_window AND host = :host AND boot = :boot AND process = :process
AND start_ns >= :from AND start_ns < :to
ORDER BY start_ns, end_ns, stream, gpu_start_ns
LIMIT :limit
