/* status.h: what the shipper says of itself, in a file that anybody may read: one key and one value
 * in a line. `tsctl ship status` and the metrics of `tsctl serve` read it. */
#ifndef TS_CLIENT_SHIP_STATUS_H
#define TS_CLIENT_SHIP_STATUS_H

#include <stdint.h>

#define STATUS_PATH	  "/run/tracesmith-ship/status"
#define STATUS_TEXT_BYTES 512

/* identifier, what it is */
#define STATUS_NUMBERS(X)                                                                          \
	X(pid, "of the shipper")                                                                   \
	X(until_time, "end of the last minute that has arrived, in seconds since 1970")            \
	X(sent_time, "when it arrived, likewise")                                                  \
	X(told_time, "when this file was written, likewise")                                       \
	X(minutes, "shipped since the state folder is there")                                      \
	X(rows, "likewise")                                                                        \
	X(bytes, "likewise, as sent")                                                              \
	X(retries, "since the start")                                                              \
	X(lost_s, "seconds that the daemon's store deleted before they were shipped")              \
	X(windows, "that the fleet asked for and got, since the start")                            \
	X(window_time, "when the last was asked for that was taken up, in seconds since 1970")

#define STATUS_TEXTS(X)                                                                            \
	X(url, "of the server")                                                                    \
	X(trouble, "what is wrong, or nothing")                                                    \
	X(left_out, "tables that are not sent, with spaces between")                               \
	X(jobs, "those that are sent, if not all are")

struct status {
#define X(identifier, text) char identifier[STATUS_TEXT_BYTES];
	STATUS_TEXTS(X)
#undef X
#define X(identifier, text) uint64_t identifier;
	STATUS_NUMBERS(X)
#undef X
};

/* From the end of the last minute that has arrived until now; 0: none has. */
uint64_t status_lag_s(const struct status *status, uint64_t now_s);

/* Replaces the file. */
int status_write(const char *path, const struct status *status);
/* -ENOENT: there is none; -EBADMSG. */
int status_read(const char *path, struct status *ret);

#endif
