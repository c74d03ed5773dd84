-- device time: when kernels ran, and why not
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
--   state         text
--   total_ns      nanoseconds
--   plus_minus_ns nanoseconds
--   watched       share
--   share         share
--   observed_ns   nanoseconds
--   text          text
WITH s AS (
	SELECT process, device, state, sum(ns) AS ns
	FROM busy
	WHERE @IN_WINDOW@
	AND (:device IS NULL OR device = :device)
	GROUP BY process, device, state
), d AS (
	SELECT process, device, sum(ns) AS observed_ns
	FROM s
	GROUP BY process, device
-- Since a process is recorded, and whether something of that time may not be there.
), r AS MATERIALIZED (
	SELECT process, max(:since, min(1000000000 * (min(second) + 1),
		coalesce((SELECT since_ns FROM collect c WHERE c.process = busy.process), :until)))
		AS since_ns
	FROM busy
	WHERE @IN_WINDOW@
	GROUP BY process
), unseen AS MATERIALIZED (
	SELECT DISTINCT r.process
	FROM r
	JOIN loss ON loss.process IN (r.process, 0)
	WHERE boot = :boot AND @IS_WORK_UNSEEN@ AND start_ns <= :until AND end_ns >= since_ns
), @EXACT_WINDOWS@, recorded AS MATERIALIZED (
	SELECT process, second, device, state, CAST(sum(ns) AS REAL) AS ns
	FROM @BUSY_OF_WINDOWS@
	AND (:device IS NULL OR device = :device)
	GROUP BY process, second, device, state
), @AT_WINDOWS@, part AS MATERIALIZED (
	SELECT process, device, state, @IS_WORK@ AS works, since, ms, faster, sum(ns) AS ns
	FROM recorded
	JOIN at USING (process, second)
	JOIN windows USING (process, since)
	GROUP BY process, device, state, since
-- In unwatched time the device has more work, and less of everything else.
), whole AS MATERIALIZED (
	SELECT process, device, since, work_ns, ns - work_ns AS rest_ns,
		CASE WHEN work_ns < ns THEN min(faster * work_ns / ns, 1) ELSE 1 END AS work
	FROM (
		SELECT process, device, since, faster, sum(ns) AS ns, sum(works * ns) AS work_ns
		FROM part
		GROUP BY process, device, since
	)
), b AS MATERIALIZED (
	SELECT process, device, state, ms, CASE WHEN works THEN 1e6 * ms * work * ns / work_ns
		ELSE 1e6 * ms * (1 - work) * ns / rest_ns END AS ns,
		1e6 * ms * work * ns / CASE WHEN works THEN work_ns ELSE rest_ns END AS work_ns
	FROM part
	JOIN whole USING (process, device, since)
), u AS MATERIALIZED (
	SELECT process, device, state, sum(b.ns) AS missed_ns,
		both(window_error(windows, sum(b.ns), missed.ms, sum(b.ns * b.ns),
			sum(b.ns * b.ms), ms2), sum(b.work_ns) * unsure) AS missed_by
	FROM b
	JOIN missed USING (process)
	GROUP BY process, device, state
), e AS MATERIALIZED (
	SELECT s.process, s.device, s.state, ns + coalesce(missed_ns, 0) AS ns, missed_by
	FROM s
	LEFT JOIN u USING (process, device, state)
), f AS (
	SELECT process, device, sum(ns) AS whole_ns
	FROM e
	GROUP BY process, device
), t(state, place, text) AS (
	@DEVICE_STATES@
) SELECT p.pid, p.comm, nullif(s.device, -1), n.name, CAST(round(ns) AS INTEGER),
	CAST(round(missed_by) AS INTEGER), share(watched_ns, all_ns),
	share(ns, whole_ns), observed_ns,
	iif(t.state @IS_NO_WORK@ AND s.process IN unseen,
		'no work was seen, but not all of the time was watched', t.text)
FROM e s
JOIN d USING (process, device)
JOIN f USING (process, device)
LEFT JOIN missed USING (process)
JOIN process p ON p.id = s.process
JOIN detail n ON n.id = s.state
AND n.kind = (SELECT id FROM kind WHERE name = 'state')
JOIN t ON t.state = s.state
ORDER BY p.pid, p.id, s.device, t.place
LIMIT :limit
