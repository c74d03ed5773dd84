-- the losses in the window of a trace, with those of unknown processes
--
-- options: pid window
-- about: all
-- flags: internal
-- columns:
--   start_ns time
--   end_ns   time
--   process  id
--   reason   integer
--   name     text
--   count    integer
SELECT l.start_ns, l.end_ns, l.process, l.reason, r.name, l.count
FROM loss l
LEFT JOIN loss_reason r ON r.id = l.reason
WHERE l.boot = :boot AND l.end_ns >= :since AND l.start_ns < :until
AND (l.process = 0 OR @OF_BOOT@)
ORDER BY l.start_ns
LIMIT :limit
