-- the newest step that was applied
--
-- internal
SELECT max(version) AS version FROM :database.version
