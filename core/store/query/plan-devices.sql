-- the devices of each process, for a plan
--
-- flags: internal
-- columns:
--   process         id
--   ordinal         integer
--   multiprocessors integer
SELECT process, ordinal, multiprocessors FROM device
WHERE multiprocessors > 0
ORDER BY process, ordinal
LIMIT :limit
