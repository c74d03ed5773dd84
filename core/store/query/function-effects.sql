-- what each function does to the device, as the model knows it
--
-- flags: internal
-- columns:
--   id     id
--   effect integer
SELECT id, effect FROM function
ORDER BY id
LIMIT :limit
