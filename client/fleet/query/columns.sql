-- the columns of the database's tables
--
-- internal
SELECT table, name, type FROM system.columns WHERE database = :database ORDER BY table, name
