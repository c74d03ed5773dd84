/* phrase.h: SQL that statements share: @NAME@ in a .sql file is the phrase of that name. */
#ifndef TS_QUERY_PHRASE_H
#define TS_QUERY_PHRASE_H

#include "core/leak/verdict.h"
#include "core/memory/pools.h"
#include "core/model/core.h"
#include "core/model/op.h"
#include "core/store/total.h"
#include "proto/event.h"

/* SQL is laid out by hand, one clause per line. */
/* clang-format off */

/* Of a process p. */
#define ASKED \
	"((:pid IS NULL OR p.pid = :pid)" \
	" AND (:user IS NULL OR :user IN (p.user, CAST(p.uid AS TEXT))))"
#define USER     "coalesce(p.user, CAST(p.uid AS TEXT))"
#define RUNNING  "coalesce(p.exit_ns, 0) = 0"
#define STATE    "CASE WHEN " RUNNING " THEN 'running' ELSE 'ended' END"
/* When it started: before it was first seen, if known. */
#define STARTED  "min(p.first_ns, p.started_ticks * 10000000 - :suspended)"

/* Of a row that has fn, joined with function f. */
#define FUNCTION "coalesce(f.name, 'function ' || fn)"

/* Of a row that has stack_key(). */
#define STACK_SHOWN "iif(:by > 2, NULL, stack)"

/* Of a row that has the id of its process. */
#define OF_ASKED \
	"(coalesce(:pid, :user) IS NULL OR process IN" \
	" (SELECT p.id FROM process p WHERE p.boot = :boot AND " ASKED "))"
/* The same, of this boot only. */
#define OF_BOOT \
	"process IN (SELECT p.id FROM process p WHERE p.boot = :boot AND " ASKED ")"
/* Of processes p, those that lived in the window. Some of what they did is told later. */
#define IN_LIFE \
	"(p.boot = :boot AND p.first_ns <= :until + 10000000000" \
	" AND (" RUNNING " OR p.exit_ns >= :since - 10000000000) AND " ASKED ")"
/* Of op, so that only the chunks of such processes are looked for. */
#define OF_WINDOW \
	"process IN (SELECT p.id FROM process p WHERE " IN_LIFE ")"
#define OF_PROCESS \
	"process IN (SELECT p.id FROM process p WHERE p.boot = :boot" \
	" AND (:process IS NULL OR p.id = :process))"
/* Of tables that have sums by the second or minute. */
#define IN_WINDOW \
	"boot = :boot AND second BETWEEN :first AND :until / 1000000000" \
	" AND " OF_ASKED

/* Of a row of `collective` c, joined with its process p and communicator k: the same in all ranks,
 * unless its start was not seen. */
#define COMMUNICATOR_NAME \
	"CASE WHEN k.id <> 0 THEN printf('%016x', k.id)" \
	" ELSE 'unknown ' || c.communicator || ' of ' || p.pid END"
/* Of a row of it: words, and what nccl-tests multiplies by. */
#define PHRASE_CASE(number, identifier, name, ...)  " WHEN " #number " THEN '" name "'"
#define PHRASE_PARTS(number, identifier, name, part) " WHEN " #number " THEN " #part
#define PHRASE_NAME(number, name, ...)               " WHEN " #number " THEN '" name "'"
#define COLLECTIVE_NAME        "CASE operation" COLLECTIVES(PHRASE_CASE) " END"
#define COLLECTIVE_IS_OF_PARTS "CASE operation" COLLECTIVES(PHRASE_PARTS) " ELSE 0 END"
/* 2: by 2 (n - 1) / n, 1: by (n - 1) / n, 0: by nothing. */
#define COLLECTIVE_FACTOR      "iif(operation = 1, 2, " COLLECTIVE_IS_OF_PARTS ")"
#define NCCL_TYPE_NAME         "CASE type - 1" NCCL_TYPES(PHRASE_NAME) " END"
#define NCCL_REDUCTION_NAME    "CASE reduction - 1" NCCL_REDUCTIONS(PHRASE_NAME) " END"

/* What is shipped is of a minute: how many came before it in its boot is :number. */
#define MINUTE_NS   "60000000000 * coalesce(:number, 0)"
#define FROM_MINUTE "boot = :boot AND second >= 60 * coalesce(:number, 0)"
#define IN_MINUTE   FROM_MINUTE " AND second < 60 * coalesce(:number, 0) + 60"
#define OF_HOUR     "boot = :boot AND second >= 60 * coalesce(:number, 0) - 3540" \
	" AND second < 60 * coalesce(:number, 0) + 60"
/* Of a process p. */
#define RAN_IN_MINUTE \
	"p.boot = :boot AND p.first_ns < " MINUTE_NS " + 60000000000" \
	" AND (" RUNNING " OR p.exit_ns >= " MINUTE_NS ")"

/* What the page's lanes are made of. A part of a graph has the call of all of it. */
#define IS_WORK_OP "kind IN ('launch', 'kernel', 'copy', 'set')"
#define IS_CALL_OP \
	"kind IN ('launch', 'alloc', 'free', 'copy', 'set', 'sync', 'event', 'stream', 'graph'," \
	" 'context', 'module', 'init', 'memory') AND flags & " OP_IS_NODE " = 0"
#define OP_IS_NODE "256"
_Static_assert(OP_NODE == 256, "OP_IS_NODE is its number");
#define OP_IS_PAGEABLE "2048"
_Static_assert(OP_PAGEABLE == 2048, "OP_IS_PAGEABLE is its number");
/* What it says of one operation. */
#define OP_SHOWN \
	"name, kind, fn, detail, pid, tid, stream, nullif(device, -1), start_ns, duration_ns," \
	" gpu_start_ns, gpu_end_ns - gpu_start_ns," \
	" iif(exact AND gpu_start_ns >= start_ns, gpu_start_ns - start_ns, NULL)," \
	" seen_ns, bounds, result, nullif(bytes, 0)," \
	" iif(grid_x, printf('%d × %d × %d', grid_x, grid_y, grid_z), NULL)," \
	" iif(block_x, printf('%d × %d × %d', block_x, block_y, block_z), NULL)," \
	" nullif(shared_bytes + static_bytes, 0), nullif(registers, 0), stack"
/* Of sums by the second, and of older ones by the minute: the column of the page's picture, and the
 * time that the rows of a group are about. */
#define PLACE_OF_SECOND "max(second * 1000000000 - :since, 0) / :step"
#define SECONDS \
	"min(second) * 1000000000 AS start," \
	" max(second + iif(second % 60 = 0 AND second < :now / 1000000000 - 240, 60, 1))" \
	" * 1000000000 AS until"

/* Of rollups, to be grouped. CUDA_ERROR_NOT_READY (600) is an answer, not an error. */
#define ERRORS   "sum(CASE WHEN result IN (0, 600) THEN 0 ELSE calls END) AS errors"
#define TIMES \
	"sum(timed) AS timed, sum(total_ns) AS total_ns," \
	" min(CASE WHEN timed > 0 THEN min_ns END) AS min_ns, max(max_ns) AS max_ns"

/* The duration of the op at a rank in this bucket, as far as known: the first and the last of a
 * bucket are exact, for the others the mean is used. */
#define AT_RANK(rank) \
	"max(CASE WHEN " rank " > upto - n AND " rank " <= upto THEN" \
	" CASE " rank " WHEN upto - n + 1 THEN low WHEN upto THEN high ELSE ns / n END END)"
#define MEDIAN   AT_RANK("(count + 1) / 2")
#define P99      AT_RANK("(count * 99 + 99) / 100")

/* Kinds of memory. */
#define DEVICE_MEMORY "'device', 'managed', 'pool', 'physical'"
/* Those that have addresses, of which tensors lie in the others. */
#define ADDRESS_MEMORY "'device', 'managed', 'pool', 'mapped', 'tensor'"

/* Peaks of different kinds need not be simultaneous: their sum is an upper bound. */
#define JOIN_MEMORY \
	" LEFT JOIN (" \
		"SELECT m.process, sum(live_bytes) AS live_bytes, sum(peak_bytes) AS peak_bytes" \
		" FROM memory m JOIN memory_kind k ON k.id = m.kind" \
		" WHERE k.name IN (" DEVICE_MEMORY ")" \
		" GROUP BY m.process" \
	") m ON m.process = p.id"

/* Grouped in the order of the rollups' key first, which needs no sorting, then over the seconds. */
#define JOIN_CALLS \
	" LEFT JOIN (" \
		"SELECT process, sum(calls) AS calls, sum(errors) AS errors" \
		" FROM (" \
			"SELECT process, sum(calls) AS calls, " ERRORS \
			" FROM rollup WHERE " IN_WINDOW " AND freed = 0" \
			" GROUP BY second, process" \
		") GROUP BY process" \
	") c ON c.process = p.id"

/* Of names: one of a process that the asker sees. Kernels have sums, ranges have not. */
#define NAME_SHOWN \
	"(:owner IS NULL OR id IN (SELECT name FROM work UNION SELECT name FROM device)" \
	" OR text IN (SELECT name FROM op WHERE kind = 'range'))"

/* Where hot calls were watched in windows: by window (those that start in a second are one), how
 * much it stands for, and until when what was counted is its; and that in all, with how far the sum
 * may be off by chance (90 %: Student's distribution is at most 1.645 + 2 / n from 8 windows on,
 * and a little more for fewer).
 *
 * A window also stands for time before and after it, some of which may lie outside the question:
 * of its estimate only the part inside counts. Time in the question that none of its windows stands
 * for is estimated from the last earlier window that saw calls, and what was reported since. Its
 * error includes how much windows differ from each other, as a part of a gap may be like any of
 * them (100 % if there was only one window).
 *
 * A row only says in which second its window opened: on average in the middle, with a standard
 * deviation of 0.3 s. That matters where a window crosses an end of the question. */
#define WINDOWS \
	"last_before AS MATERIALIZED (" \
		"SELECT process, max(second) AS since, count(*) AS count," \
		" coalesce(iif(count(*) > 1, max(avg(" RATE " * " RATE ")" \
		" / (avg(" RATE ") * avg(" RATE ")) - 1, 0), NULL), 0.075) AS spread2" \
		" FROM watch" \
		" WHERE all_ns > 0 AND windows > 0 AND seen > 0 AND boot = :boot" \
		" AND second BETWEEN :first - " LONGEST_GAP_S " AND :first - 1 AND " OF_ASKED \
		" GROUP BY process" \
	"), each_window AS MATERIALIZED (" \
		"SELECT process, second AS since," \
		" second + sum(watched_ns) / 1000000000 + 2 AS until," \
		" CAST(sum(missed) AS REAL) AS missed, sum(missed_by) AS missed_by," \
		" max(total(error2), 0) AS error2, sum(watched_ns) AS watched_ns," \
		" sum(all_ns) - sum(watched_ns) AS gap_ns, sum(windows) AS count," \
		" iif(sum(watched_ns) > " ROOM ", " ROOM " - 500000000, sum(watched_ns))" \
		" AS seen_ns, 0 AS spread2, sum(watched_ns) > " ROOM " AS crosses" \
		" FROM watch WHERE all_ns > 0 AND " IN_WINDOW " GROUP BY process, second" \
		" UNION ALL " \
		"SELECT process, since, since + sum(watched_ns) / 1000000000 + 2," \
		" CAST(max(sum(missed), 0) AS REAL), sum(missed_by), max(total(error2), 0), 0," \
		" sum(all_ns) - sum(watched_ns), count," \
		" total(max(watched_ns - (:first - second) * 1000000000 + 500000000, 0))," \
		" spread2, max(watched_ns - (:first - second) * 1000000000) > -1000000000" \
		" FROM watch CROSS JOIN last_before USING (process)" \
		" WHERE all_ns > 0 AND boot = :boot AND second >= since" \
		" AND second BETWEEN :first - " LONGEST_GAP_S " AND :first - 1" \
		" GROUP BY process" \
	"), asked AS MATERIALIZED (" \
		"SELECT process, min(start_ns) < :first * 1000000000 AS comes," \
		" max(end_ns) > :until + 1000000000 AS goes_on," \
		" total(max(min(end_ns, (" LAST_SECOND " + 1) * 1000000000)" \
		" - max(start_ns, :first * 1000000000), 0)) AS asked_ns" \
		" FROM (SELECT 1 FROM each_window LIMIT 1) CROSS JOIN loss" \
		" WHERE boot = :boot AND reason = " LOSS_OF_WINDOWS " AND start_ns <= :until" \
		" GROUP BY process" \
	"), told AS (" \
		"SELECT process, min(since) FILTER (WHERE since >= :first) AS first_since," \
		" total(gap_ns) FILTER (WHERE since >= :first) AS told_ns," \
		" total(seen_ns) AS seen_ns" \
		" FROM each_window GROUP BY process" \
	"), beside AS MATERIALIZED (" \
		"SELECT process, first_since, told_ns, asked_ns - seen_ns - told_ns AS more_ns," \
		" CASE WHEN goes_on THEN 0 ELSE (SELECT gap_ns FROM each_window w" \
		" WHERE w.process = told.process AND since = first_since) END AS first_ns" \
		" FROM told JOIN asked USING (process) WHERE asked_ns > 0 AND (comes OR goes_on)" \
	"), windows AS MATERIALIZED (" \
		"SELECT process, since, until, missed * part AS missed," \
		" missed_by * part AS missed_by," \
		" error2 * max(part, part * part) + missed * missed * part * part * spread2" \
		" + edge * edge AS error2," \
		" seen_ns AS watched_ns, seen_ns + gap_ns * part AS all_ns, count" \
		" FROM (" \
			"SELECT w.*," \
			" coalesce(crosses * max(missed, 0) / gap_ns * 3e8, 0) AS edge," \
			" coalesce(CASE" \
			" WHEN since < :first THEN max(min(more_ns / gap_ns, 1), 0)" \
			" WHEN more_ns >= 0 THEN 1" \
			" WHEN since = first_since AND first_ns > 0" \
			" THEN max(1 + more_ns / first_ns, 0)" \
			" ELSE max(1 + min(more_ns + first_ns, 0) / (told_ns - first_ns), 0)" \
			" END, since >= :first) AS part" \
			" FROM each_window w LEFT JOIN beside USING (process)" \
		") WHERE since >= :first OR part > 0 OR edge > 0" \
	"), missed AS MATERIALIZED (" \
		"SELECT process, sum(missed) AS missed," \
		" CAST(sum(missed_by) AS REAL) / max(sum(missed), 1) AS unsure," \
		" (1.645 + 2.0 / max(sum(count), 1)) * root(sum(error2)) AS error," \
		" CAST(sum(watched_ns) AS INTEGER) AS watched_ns," \
		" CAST(sum(all_ns) AS INTEGER) AS all_ns" \
		" FROM windows GROUP BY process" \
	"), second_before AS (" \
		"SELECT process, since AS second, until FROM windows WHERE since < :first" \
		" UNION ALL SELECT process, second + 1, until FROM second_before" \
		" WHERE second + 1 < min(until, :first)" \
	")"
#define LAST_SECOND     ":until / 1000000000"
#define ROOM            "((" LAST_SECOND " + 1 - second) * 1000000000)"
#define RATE            "(CAST(seen AS REAL) / watched_ns)"
#define LONGEST_GAP_S   "600"
#define LOSS_OF_WINDOWS "34"
_Static_assert(LOSS_WINDOWS == 34, "LOSS_OF_WINDOWS is its number");
/* Of rollups of hot functions, those of processes with windows. Nothing is read without any. */
#define CALLS_OF_WINDOWS \
	"(" \
		"SELECT rollup.* FROM (SELECT 1 FROM missed LIMIT 1) CROSS JOIN rollup" \
		" WHERE freed = 0 AND process IN (SELECT process FROM missed) AND " IN_WINDOW \
		" UNION ALL " \
		"SELECT rollup.* FROM second_before CROSS JOIN rollup USING (process, second)" \
		" WHERE boot = :boot AND freed = 0" \
	") rollup JOIN function f ON f.id = fn WHERE f.hot"
/* Calls by window, from rows named recorded, and how much was missed for each. Where none of a
 * window is left, which another clock's second or old sums can do, the others stand for it; and
 * where no window that missed any has one, all that were seen do. */
#define AT_WINDOWS_OF_CALLS \
	AT_WINDOWS "," \
	"hot AS MATERIALIZED (" \
		"SELECT process, since, windows.missed / sum(calls) AS more, windows.missed" \
		" FROM recorded JOIN at USING (process, second)" \
		" JOIN windows USING (process, since)" \
		" GROUP BY process, since" \
	"), known AS MATERIALIZED (" \
		"SELECT process, max(missed.missed, 1) / max(total(hot.missed), 1) AS part," \
		" iif(total(hot.missed) > 0, 0, missed.missed / seen) AS each, seen," \
		" total(hot.missed > 0) AS windows, total(hot.missed) AS missed," \
		" total(hot.missed * hot.missed) AS missed2" \
		" FROM missed" \
		" JOIN (SELECT process, sum(calls) AS seen FROM recorded GROUP BY process)" \
		" USING (process)" \
		" LEFT JOIN hot USING (process) GROUP BY process" \
	")"
/* How far the sum of what was missed of a function, by window, may be off (90 %): as far as its
 * share of all calls of the process may, and by half as much as that share differs from window to
 * window, since each window stands for the time next to it. */
#define MISSED_OF_CALLS_BY \
	"both(both(iif(sum(b.calls) > 0, sum(b.calls) / missed.missed, sum(b.seen) / known.seen)" \
	" * error, sum(b.calls) * unsure), CASE WHEN known.windows < 3" \
	" THEN max(coalesce(sum(b.calls) * (1 - sum(b.calls) / part / known.missed), 0), 0)" \
	" ELSE 0.5 * window_error(known.windows, sum(b.calls), known.missed," \
	" sum(b.calls * b.calls), sum(b.calls * b.missed), known.missed2) END)"

/* Where the exact tier recorded in windows: by window, how much was missed for each hot call that
 * was recorded in or since it, in how many milliseconds; and that in all. */
#define EXACT_WINDOWS \
	"windows AS MATERIALIZED (" \
		"SELECT process, second AS since," \
		" lead(second, 1, 1e18) OVER (PARTITION BY process ORDER BY second) AS until," \
		/* What windows missed that saw nothing is in proportion to what others did. */ \
		" coalesce(CAST(missed AS REAL) / (seen + whole), 0)" \
		" * coalesce(total(missed) OVER all_of / total(missed)" \
		" FILTER (WHERE seen + whole > 0) OVER all_of, 1) AS more," \
		/* In unwatched time a launch costs the program less. */ \
		" coalesce(CAST(missed AS REAL) / (all_ns - watched_ns) * watched_ns / seen, 1)" \
		" AS faster," \
		" (all_ns - watched_ns) / 1e6 AS ms, missed, missed_by, watched_ns, all_ns," \
		" windows AS opened, error2" \
		" FROM watch WHERE part = " PART_EXACT " AND " IN_WINDOW \
		" WINDOW all_of AS (PARTITION BY process)" \
	"), missed AS MATERIALIZED (" \
		"SELECT process, sum(opened) AS windows, sum(ms) AS ms, sum(ms * ms) AS ms2," \
		/* For the price, and by chance. */ \
		" both(CAST(sum(missed_by) AS REAL)," \
		" (1.645 + 2.0 / max(sum(opened), 1)) * root(total(error2)))" \
		" / max(sum(missed), 1) AS unsure," \
		" sum(watched_ns) AS watched_ns, sum(all_ns) AS all_ns" \
		" FROM windows GROUP BY process HAVING sum(all_ns) > 0" \
	")"
#define PART_EXACT "2"
_Static_assert(PRICE_EXACT == 2, "PART_EXACT is its number");
/* Of a table, the rows of processes that were recorded in windows. Nothing is read without any. */
#define OF_WINDOWS(table) \
	"(SELECT 1 FROM missed LIMIT 1) CROSS JOIN " table \
	" WHERE process IN (SELECT process FROM missed) AND " IN_WINDOW
#define WORK_OF_WINDOWS   OF_WINDOWS("work")
#define BUSY_OF_WINDOWS   OF_WINDOWS("busy")
/* The window that each second of such rows, named recorded, belongs to: the last one that started,
 * unless it is long over. */
#define AT_WINDOWS \
	"last AS (" \
		"SELECT process, second," \
		" max(since) OVER (PARTITION BY process ORDER BY second) AS since" \
		" FROM (" \
			"SELECT DISTINCT process, second, NULL AS since FROM recorded" \
			" UNION ALL SELECT process, since, since FROM windows" \
		")" \
	"), at AS MATERIALIZED (" \
		"SELECT DISTINCT last.process, second, last.since" \
		" FROM last JOIN windows w ON w.process = last.process AND w.since = last.since" \
		" AND second < until" \
	")"
/* How far the sum of what was missed of a thing, by window, may be off. */
#define MISSED_BY(value) \
	"both(window_error(windows, sum(" value "), missed.ms, sum(" value " * " value ")," \
	" sum(" value " * b.ms), ms2), sum(" value ") * unsure)"
#define MISSED_BY_COUNT MISSED_BY("b.count")
#define MISSED_BY_NS    MISSED_BY("b.ns")

#define COLLECT_PAUSED "2"
_Static_assert(TS_COLLECT_PAUSED == 2, "COLLECT_PAUSED is its number");

/* The current tier of a process, from its row of `collect`. */
#define JOIN_COLLECT \
	" LEFT JOIN (" \
		"SELECT c.process, c.state, since_ns, taken," \
		" share(busy_ns - own_ns, wall_ns) AS callback, share(own_ns, wall_ns) AS own" \
		" FROM collect c" \
		" WHERE until_ns IS NULL" \
	") x ON x.process = p.id"
#define TIER \
	"CASE WHEN x.process IS NULL AND p.light THEN 'light' WHEN x.process IS NULL THEN 'probe'" \
	" WHEN x.state = " COLLECT_PAUSED " THEN 'paused' ELSE 'exact' END"

/* Of a row g of `growth`. */
#define VERDICT_TEXT(number, identifier, name, text) " WHEN " #number " THEN '" name "'"
#define VERDICT "CASE g.verdict" VERDICTS(VERDICT_TEXT) " END"
#define VERDICT_IS_LEAK "6"
_Static_assert(VERDICT_LEAK == 6, "VERDICT_IS_LEAK is its number");

/* Of a row that has a pool of memory. */
#define MEMORY_POOL_TEXT(number, identifier, name) " WHEN " #number " THEN '" name "'"
#define MEMORY_POOL	"CASE pool" MEMORY_POOLS(MEMORY_POOL_TEXT) " END"
#define POOL_IS_DRIVER	"1"
#define POOL_IS_UNKNOWN "5"
_Static_assert(MEMORY_POOL_DRIVER == 1 && MEMORY_POOL_UNKNOWN == 5, "the numbers above");

/* Of a row of `price`: no other part has taken its place. */
#define PRICE_HOLDS "(turns > 0 OR NOT measured)"
/* Parts of the others. */
#define PARTS_OF_STACKS "(3, 4)"
_Static_assert(PRICE_STACKS == 3 && PRICE_STACKS_INSIDE == 4, "the numbers above");
/* What recording costs a process, of all parts. An interval needs all of them measured. */
#define JOIN_PRICE \
	" LEFT JOIN (" \
		"SELECT process, sum(cost_ppm) AS cost," \
		" CASE WHEN min(measured) THEN sum(cost_low_ppm) END AS low," \
		" CASE WHEN min(measured) THEN sum(cost_high_ppm) END AS high," \
		" nullif(max(CASE WHEN " PRICE_HOLDS " THEN budget_ppm END), 0) AS budget" \
		" FROM price WHERE part NOT IN " PARTS_OF_STACKS " GROUP BY process" \
	") e ON e.process = p.id"
#define PRICE_PART_TEXT(number, name, text) " WHEN " #number " THEN '" text "'"
#define PRICE_PART "CASE part" PRICE_PARTS(PRICE_PART_TEXT) " ELSE 'part ' || part END"

/* Of a row of `total`. */
#define TOTAL_WHAT_TEXT(number, identifier, name) " WHEN " #number " THEN '" name "'"
#define TOTAL_WHAT	"CASE what" TOTALS(TOTAL_WHAT_TEXT) " END"
#define TOTAL_OF_KINDS	"1, 2"
#define TOTAL_IS_ERRORS "3"
#define TOTAL_OF_COPIES "4, 7"
#define TOTAL_IS_STATES "8"
#define TOTAL_IS_LOSSES "9"
#define TOTAL_IS_MISSED "10"
_Static_assert(TOTAL_CALLS == 1 && TOTAL_FAILED == 2 && TOTAL_ERRORS == 3 && TOTAL_COPIES == 4 &&
		       TOTAL_DEVICE_COPIES == 7 && TOTAL_STATES == 8 && TOTAL_LOSSES == 9 &&
		       TOTAL_MISSED == 10,
	       "the numbers above");

/* Of a row of `loss`. What this version does not know is missing, too, and no alarm. */
#define LOSS_NUMBER_MISSING(number)
#define LOSS_NUMBER_NOTE(number)   "," #number
#define LOSS_NUMBER_PERIOD(number) "," #number
#define LOSS_NUMBER_QUIET(number)
#define LOSS_NUMBER_ALARM(number)  "," #number
#define LOSS_NOT_MISSING(number, identifier, counts, ...)     LOSS_NUMBER_##counts(number)
#define LOSS_ALARM(number, identifier, counts, alarm, ...)    LOSS_NUMBER_##alarm(number)
#define IS_MISSING "reason NOT IN (0" LOSS_REASONS(LOSS_NOT_MISSING) ")"
#define IS_ALARM   "reason IN (0" LOSS_REASONS(LOSS_ALARM) ")"
/* In its time these may not be there: anything, what keeps a device busy, a call. */
#define LOSS_MISSES(number, identifier, counts, alarm, misses, ...) ",(" #number ",'" #misses "')"
#define MISSES(what) \
	"reason IN (SELECT column1 FROM (VALUES(0,'NOTHING')" LOSS_REASONS(LOSS_MISSES) ")" \
	" WHERE column2 " what ")"
#define IS_UNSEEN      MISSES("<> 'NOTHING'")
#define IS_WORK_UNSEEN MISSES("IN ('CALLS', 'WORK', 'DEVICE')")
#define IS_CALL_UNSEEN MISSES("IN ('CALLS', 'WORK')")

/* Of a row of states: the device works. */
#define IS_WORK \
	"state IN (SELECT d.id FROM detail d JOIN kind k ON k.id = d.kind" \
	" WHERE k.name = 'state' AND d.name IN ('running', 'copying'))"

#define IS_NO_WORK "IN (1, 6)"
_Static_assert(OP_STATE_IDLE == 1 && OP_STATE_SYNCING == 6, "the numbers above");

/* Rows of states of a device: number, place in the answer, meaning. The first is none. */
#define DEVICE_STATE(number, identifier, name, place, text) ",(" #number "," #place ",'" text "')"
#define DEVICE_STATES "VALUES(0,0,'')" OP_STATES(DEVICE_STATE)

/* clang-format on */

#endif
