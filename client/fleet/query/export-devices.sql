-- the devices of a job's processes
--
-- internal
SELECT host, boot, process, device, name FROM device FINAL WHERE :asked
ORDER BY host, boot, process, device
LIMIT :limit
