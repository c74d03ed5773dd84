-- rows of the processes that a condition selects
--
-- internal
(:host AND (host, boot, process) GLOBAL IN (SELECT host, boot, process FROM process FINAL WHERE :process))
