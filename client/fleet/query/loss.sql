-- what is missing, by host and reason
--
-- options: job host rank since until
-- window: 1 h
-- columns:
--   host      text
--   reason    text
--   count     integer
--   processes integer
--   last      time
SELECT host, reason, sum(count), uniqExact(boot, process), toInt64(toUnixTimestamp(max(time))) * 1000000000
FROM loss FINAL
PREWHERE :in_window AND :asked
GROUP BY host, reason
ORDER BY sum(count) DESC, host, reason
LIMIT :limit
