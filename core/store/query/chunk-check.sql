-- reads each stored chunk once, to find those that are damaged
--
-- flags: internal
-- columns:
--   chunks integer
SELECT count(data) FROM chunk
ORDER BY 1
LIMIT :limit
