-- copies behind kernels, and kernels at once
--
-- options: pid window device
-- window: 3600 s
-- limit: 1000
-- about: states
-- records: kernels copies
-- nothing: No device was used
-- columns:
--   pid           id
--   comm          text
--   device        id
--   observed_ns   nanoseconds
--   both_ns       nanoseconds
--   kernels_ns    nanoseconds
--   copies_ns     nanoseconds
--   neither_ns    nanoseconds
--   hidden        share
--   concurrent_ns nanoseconds
--   mean_kernels  real
--   max_kernels   integer
WITH s AS (
	SELECT process, device, sum(ns) AS observed,
		coalesce(sum(ns) FILTER (WHERE kernels AND copies), 0) AS both,
		coalesce(sum(ns) FILTER (WHERE kernels AND NOT copies), 0) AS kernels_only,
		coalesce(sum(ns) FILTER (WHERE copies AND NOT kernels), 0) AS copies_only,
		coalesce(sum(ns) FILTER (WHERE NOT kernels AND NOT copies), 0) AS neither,
		coalesce(sum(ns) FILTER (WHERE kernels >= 2), 0) AS concurrent,
		sum(kernels * ns) AS kernel_ns, max(kernels) AS most
	FROM busy
	WHERE @IN_WINDOW@
	AND (:device IS NULL OR device = :device)
	GROUP BY process, device
) SELECT p.pid, p.comm, nullif(s.device, -1), observed, both,
	kernels_only, copies_only, neither,
	share(both, both + copies_only), concurrent,
	CASE WHEN both + kernels_only > 0
	THEN round(1.0 * kernel_ns / (both + kernels_only), 2) END, most
FROM s
JOIN process p ON p.id = s.process
ORDER BY p.pid, p.id, s.device
LIMIT :limit
