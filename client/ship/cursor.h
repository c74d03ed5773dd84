/* cursor.h: up to where this host is shipped, in a file of the state folder that is replaced whole.
 */
#ifndef TS_CLIENT_SHIP_CURSOR_H
#define TS_CLIENT_SHIP_CURSOR_H

#include <stdint.h>

#define CURSOR_BOOT_BYTES 40

/* Minutes that are looked at again, whether their sums have grown since they were sent. */
#define CURSOR_SUMS 60

struct cursor {
	char boot_id[CURSOR_BOOT_BYTES]; /* "": nothing was shipped yet */
	int64_t wall_offset_ns;		 /* as it was first in that boot */
	uint64_t minute;		 /* the next one, by the second at which it starts */
	uint64_t known;			 /* commit of that boot up to which stacks are shipped */
	uint64_t told_ns;		 /* of its last parcel */
	uint64_t summed; /* how many of its parcels had sums that retention deletes */
	uint64_t jobs;	 /* mark of the patterns with which stacks are shipped */
	/* Since the state folder is there: */
	uint64_t minutes, rows, bytes, lost_s;
	uint64_t sent_time; /* when the last one was, of CLOCK_REALTIME in seconds */
	uint64_t request;   /* of the fleet, up to which all were taken up: a time of its server */
	struct cursor_sum {
		uint64_t minute, sum;
	} sum[CURSOR_SUMS]; /* of those that were shipped last; by minute modulo */
};

static inline struct cursor_sum *cursor_sum(struct cursor *cursor, uint64_t minute)
{
	return &cursor->sum[minute / 60 % CURSOR_SUMS];
}

/* To a minute of a boot. If it is another boot, nothing of that one has been sent. */
void cursor_enter(struct cursor *cursor, const char boot_id[CURSOR_BOOT_BYTES],
		  int64_t wall_offset_ns, uint64_t minute);

/* Of the folder. Without a file, *ret is empty. -EBADMSG: the file is none of ours. */
int cursor_read(int folder, struct cursor *ret);
/* Durable when it returns 0; else the former one stays. */
int cursor_write(int folder, const struct cursor *cursor);

/* Makes FROM of the folder, which is open as `fd`, durable under the name TO. */
int cursor_replace(int folder, int fd, const char *from, const char *to);

#endif
