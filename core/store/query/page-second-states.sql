-- for the page: states of devices, from the sums of seconds
--
-- Rows are groups, one for each column of a lane: how many start there, how much of its time they
-- cover, and what most of it was.
--
-- options: pid window step
-- flags: internal
-- columns:
--   process    id
--   lane       id
--   device     integer
--   place      integer
--   count      integer
--   busy_ns    nanoseconds
--   longest_ns nanoseconds
--   start_ns   time
--   end_ns     time
--   kind       text
--   name       text
--   bounds     integer
SELECT process, 0, device, place, 2, ns, 0, start, until, 'state',
	(SELECT d.name FROM detail d JOIN kind k ON k.id = d.kind WHERE d.id = state
		AND k.name = 'state'), 0
FROM (
	SELECT process, device, @PLACE_OF_SECOND@ AS place, state, sum(ns) AS ns, @SECONDS@,
		row_number() OVER (PARTITION BY process, device, @PLACE_OF_SECOND@
			ORDER BY sum(ns) DESC) AS nth
	FROM busy
	WHERE @IN_WINDOW@
	GROUP BY process, device, place, state
)
WHERE nth = 1
ORDER BY 1, 3, 4
LIMIT :limit
