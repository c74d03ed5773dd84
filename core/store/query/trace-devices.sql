-- the devices of a trace
--
-- options: pid
-- flags: internal
-- columns:
--   process id
--   ordinal integer
--   name    text
SELECT d.process, d.ordinal, n.text
FROM device d
LEFT JOIN name n ON n.id = d.name
WHERE @OF_BOOT@
ORDER BY d.process, d.ordinal
LIMIT :limit
