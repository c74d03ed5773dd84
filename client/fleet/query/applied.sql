-- notes that a step was applied
--
-- internal
INSERT INTO :database.version (version, time, applied_by) VALUES (:version, now(), :by)
