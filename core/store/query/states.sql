-- state intervals of streams and devices, from 20 us on
--
-- Stream 0 is the device itself.
--
-- options: pid window device stream
-- window: 60 s
-- limit: 1000
-- about: bounds states
-- nothing: No state was seen
-- columns:
--   pid         id
--   comm        text
--   device      id
--   stream      id
--   state       text
--   start_ns    time
--   end_ns      time
--   duration_ns nanoseconds
SELECT p.pid, p.comm, nullif(s.device, -1), nullif(s.stream, 0), s.state,
	s.start_ns, s.end_ns, s.end_ns - s.start_ns
FROM state s
JOIN process p ON p.id = s.process
WHERE p.boot = :boot AND s.start_ns <= :until AND s.end_ns >= :since
AND @ASKED@
AND (:device IS NULL OR s.device = :device)
AND (:stream IS NULL OR s.stream = :stream)
ORDER BY s.start_ns, s.stream
LIMIT :limit
