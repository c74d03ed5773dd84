-- what is known of each host's clock by the hour, to be joined with a column `hour`
--
-- internal
(
	SELECT host, boot, toStartOfHour(time) AS hour, max(at_ns) AS known_ns, argMax(offset_ns, at_ns) AS ahead_ns,
		argMax(drift_ppb, at_ns) AS drift, argMax(bound_ns, at_ns) AS known_bound_ns,
		argMax(drift_bound_ppb, at_ns) AS drift_bound
	FROM clock FINAL
	WHERE time >= :since - 7200 AND time <= :until + 7200 AND :host
	GROUP BY host, boot, hour
)
