-- the tables of the database
--
-- internal
SELECT name, engine FROM system.tables WHERE database = :database ORDER BY name
