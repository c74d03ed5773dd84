-- for the page: work of streams, from the sums of seconds
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
SELECT process, stream, device, place, max(all_count, 2), all_ns, 0, start, until,
	(SELECT name FROM kind k WHERE k.id = kind),
	(SELECT text FROM name n WHERE n.id = name), 0
FROM (
	SELECT process, stream, device, @PLACE_OF_SECOND@ AS place, kind, name,
		sum(sum(count)) OVER alike AS all_count, sum(sum(total_ns)) OVER alike AS all_ns,
		@SECONDS@,
		row_number() OVER (PARTITION BY process, stream, device, @PLACE_OF_SECOND@
			ORDER BY sum(total_ns) DESC) AS nth
	FROM work
	WHERE @IN_WINDOW@ AND kind IN (SELECT id FROM kind WHERE name IN ('kernel', 'copy', 'set'))
	GROUP BY process, stream, device, place, kind, name
	WINDOW alike AS (PARTITION BY process, stream, device, @PLACE_OF_SECOND@)
)
WHERE nth = 1
ORDER BY 1, 2, 3, 4
LIMIT :limit
