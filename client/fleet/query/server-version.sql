-- the version of the server
--
-- internal
SELECT version() AS version
