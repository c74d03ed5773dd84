-- for tracesmith-ship: the boots that there are, and up to where their rows are written
--
-- flags: internal quick
-- columns:
--   boot           id
--   boot_id        text
--   wall_offset_ns integer
--   last_ns        time
--   gpus           integer
SELECT id, boot_id, wall_offset_ns, last_ns, (SELECT count(DISTINCT uuid) FROM device WHERE process IN
	(SELECT p.id FROM process p WHERE p.boot = boot.id AND @RUNNING@))
FROM boot
ORDER BY id
LIMIT :limit
