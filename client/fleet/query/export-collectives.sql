-- collectives of a process that nobody leaves before everybody is in them
--
-- internal
SELECT stream, cityHash64(name), gpu_start_ns, gpu_end_ns
FROM op FINAL
WHERE :in_window AND host = :host AND boot = :boot AND process = :process
AND start_ns >= :from AND start_ns < :to AND gpu_start_ns > 0 AND gpu_end_ns >= gpu_start_ns
AND kind IN ('launch', 'kernel') AND name LIKE 'nccl%'
AND (name LIKE '%AllReduce%' OR name LIKE '%AllGather%' OR name LIKE '%ReduceScatter%')
ORDER BY stream, gpu_start_ns, gpu_end_ns
LIMIT :limit
