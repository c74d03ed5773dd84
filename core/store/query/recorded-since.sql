-- when a recording starts, where its file says so
--
-- flags: internal
-- columns:
--   since_ns time
SELECT CAST(value AS INTEGER) FROM recording
WHERE key = 'since_ns' AND CAST(value AS INTEGER) > 0
ORDER BY 1
LIMIT :limit
