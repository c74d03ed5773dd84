-- clocks of hosts against the server's: what is to be added to the times that a host tells, and how certain it is
--
-- options: host since
-- window: 1 d
-- columns:
--   host          text
--   server        text
--   add_ns        nanoseconds
--   bound_ns      nanoseconds
--   drift_ppm     real
--   round_trip_ns nanoseconds
--   seen          time
SELECT host, named, if(wall = 0, NULL, latest - wall), known, round(gains / 1000, 3) + 0, round_trip, at
FROM (
	SELECT host, boot, argMax(server, at_ns) AS named, argMax(offset_ns, at_ns) AS latest, argMax(bound_ns, at_ns) AS known,
		argMax(drift_ppb, at_ns) AS gains, argMax(round_trip_ns, at_ns) AS round_trip,
		toInt64(argMax(at_ns, at_ns)) + argMax(offset_ns, at_ns) AS at
	FROM clock FINAL
	WHERE time >= :since AND :of_host
	GROUP BY host, boot
)
ANY LEFT JOIN (
	SELECT host, boot, argMax(wall_offset_ns, told_ns) AS wall FROM host WHERE :of_host GROUP BY host, boot
) USING (host, boot)
ORDER BY known DESC, host, at
LIMIT :limit
