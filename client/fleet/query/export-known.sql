-- how many processes are known of what was asked for
--
-- internal
SELECT count() AS n FROM process FINAL WHERE :of_process
