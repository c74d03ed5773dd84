-- clocks of hosts against the server's: what is to be added to the times that a host tells, how certain it is, and its wall clock
--
-- A jump is of more than a second and ten times the bounds.
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
--   wall_ns       nanoseconds
--   jump_ns       nanoseconds
--   jumped        time
SELECT host, named, if(wall = 0, NULL, latest - wall), known, round(gains / 1000, 3) + 0, round_trip, at,
	if(empty(told), NULL, told[-1].3), if(jump = 0, NULL, told[jump].3 - told[jump - 1].3),
	if(jump = 0, NULL, toInt64(told[jump].1) + told[jump].5)
FROM (
	SELECT host, boot, named, latest, known, gains, round_trip, at, told,
		arrayFilter(i -> i > 1 AND told[i].2 = told[i - 1].2 AND abs(told[i].3 - told[i - 1].3)
			> greatest(1000000000, 10 * (told[i].4 + told[i - 1].4)), arrayEnumerate(told))[-1] AS jump
	FROM (
		SELECT host, boot, argMax(server, at_ns) AS named, argMax(offset_ns, at_ns) AS latest, argMax(bound_ns, at_ns) AS known,
			argMax(drift_ppb, at_ns) AS gains, argMax(round_trip_ns, at_ns) AS round_trip,
			toInt64(argMax(at_ns, at_ns)) + argMax(offset_ns, at_ns) AS at,
			arraySort(groupArrayIf((at_ns, server, wall_offset_ns - offset_ns, toInt64(bound_ns), offset_ns), wall_offset_ns != 0)) AS told
		FROM clock FINAL
		WHERE time >= :since AND :of_host
		GROUP BY host, boot
	)
)
ANY LEFT JOIN (
	SELECT host, boot, argMax(wall_offset_ns, told_ns) AS wall FROM host WHERE :of_host GROUP BY host, boot
) USING (host, boot)
ORDER BY known DESC, host, at
LIMIT :limit
