-- collectives: who comes last, who waits for it, bandwidth; by kernels' names where NCCL has no probes
--
-- options: job host rank since until
-- window: 1 h
-- columns:
--   job          text
--   communicator text
--   name         text
--   size         integer
--   ranks        integer
--   count        integer
--   bytes        bytes
--   mean_ns      nanoseconds
--   median_ns    nanoseconds
--   shortest_ns  nanoseconds
--   longest_ns   nanoseconds
--   last         id
--   last_host    text
--   waited_ns    nanoseconds
--   algbw        bytes_per_second
--   busbw        bytes_per_second
SELECT job, of, what, if(known, n, NULL), ranks, called, if(moved > 0, toInt64(moved * parts), NULL),
	if(ran > 0, toInt64(took / ran), NULL), if(ran > 0, toInt64(middle), NULL),
	if(ran > 0, toInt64(shortest), NULL), if(ran > 0, toInt64(longest), NULL),
	if(ran > 0, last, NULL), if(ran > 0, last_host, NULL), if(ran > 0, toInt64(took - shortest * ran), NULL),
	if(rate > 0, toInt64(rate * parts), NULL),
	if(rate > 0, toInt64(rate * parts * multiIf(what = 'all-reduce', 2 * (n - 1) / n, whole, (n - 1) / n, 1)), NULL)
FROM (
	SELECT job, of, what, size_class, ranks, called, ran, took, middle, shortest, longest, last, last_host, moved,
		of NOT IN ('', 'unknown') AS known, if(told > 0, told, toUInt32(ranks)) AS n,
		what IN ('all-gather', 'reduce-scatter', 'all-to-all', 'gather', 'scatter') AS whole, if(whole, n, 1) AS parts,
		if(known AND ran > 0, last_moved * 1e9 / greatest(shortest, 1), 0) AS rate
	FROM (
		SELECT job, of, what, size_class, count() AS ranks, sum(calls_n) AS called, sum(timed_n) AS ran,
			toFloat64(sum(timed_ns)) AS took, max(size_n) AS told, sum(calls_b) / greatest(sum(runs_n), 1) AS moved,
			quantileExactIf(0.5)(timed_ns / timed_n, timed_n > 0) AS middle,
			minIf(timed_ns / timed_n, timed_n > 0) AS shortest, maxIf(timed_ns / timed_n, timed_n > 0) AS longest,
			argMinIf(rank, timed_ns / timed_n, timed_n > 0) AS last,
			argMinIf(host, timed_ns / timed_n, timed_n > 0) AS last_host,
			argMinIf(timed_b / timed_n, timed_ns / timed_n, timed_n > 0) AS last_moved
		FROM (
			SELECT host, boot, process, of, what, size_class, size_n, calls_n, runs_n, calls_b, timed_n, timed_b, timed_ns
			FROM (
				SELECT host, boot, process, number, if(communicator = '', 'unknown', communicator) AS of,
					toString(operation) AS what, log2_bytes AS size_class, max(size) AS size_n, sum(calls) AS calls_n,
					sum(runs) AS runs_n, sum(bytes) AS calls_b, sum(timed) AS timed_n, sum(timed_bytes) AS timed_b,
					sum(total_ns) AS timed_ns
				FROM collective FINAL
				PREWHERE :in_window AND :asked
				GROUP BY host, boot, process, number, of, what, size_class
			)
			UNION ALL
			SELECT host, boot, process, '' AS of, what, toUInt8(0) AS size_class, toUInt32(0) AS size_n, calls_n,
				calls_n AS runs_n, toUInt64(0) AS calls_b, calls_n AS timed_n, toUInt64(0) AS timed_b, timed_ns
			FROM (
				SELECT host, boot, process, toString(name) AS what, sum(count) AS calls_n, sum(total_ns) AS timed_ns
				FROM work FINAL
				PREWHERE :in_window AND :asked AND kind = 'kernel' AND name LIKE 'nccl%'
				GROUP BY host, boot, process, what
			)
			ANY LEFT JOIN (
				SELECT host, boot, process, toUInt8(1) AS probed
				FROM collective FINAL
				PREWHERE :in_window AND :asked
				GROUP BY host, boot, process
			) USING (host, boot, process)
			WHERE probed = 0 AND calls_n > 0
		)
		ALL INNER JOIN (
			SELECT host, boot, process, job, rank FROM process FINAL WHERE :of_process
		) USING (host, boot, process)
		GROUP BY job, of, what, size_class
	)
)
ORDER BY took DESC, called DESC, job, of, what, size_class
LIMIT :limit
