/* history.h: what became of the blocks that one stack allocated in one process, over its whole life
 * and in bounded memory. Pure: time comes as an argument.
 *
 * Time since the first block is divided into slots of one width. When there are too many of them,
 * the width doubles and neighbours join, so a history of weeks is as large as one of seconds. A
 * slot exists only where something happened: what was allocated once takes one. Each has the blocks
 * that were born in it and live still. Blocks whose end may have been missed are in doubt: they
 * count as live, and prove nothing. How many they are is known, not which ones: the next ones of
 * their slot that are freed were among them.
 */
#ifndef TS_LEAK_HISTORY_H
#define TS_LEAK_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

/* Half of them at least are used once a history is old: enough to see a shape in its last quarter.
 */
#define HISTORY_SLOTS 64
/* Ages from 1 ms on, two a power of two: up to 49 days. */
#define HISTORY_AGES 64

struct history_slot {
	uint32_t number; /* its start, in widths since the first block */
	uint32_t born;
	uint32_t alive, doubt; /* of those born in it */
	uint64_t alive_bytes, doubt_bytes;
	uint64_t high_bytes; /* the most that was live in it, of all slots */
	uint64_t activity;   /* of the process, at its last event */
};

/* Zeroed is empty. */
struct history {
	struct history_slot *slot; /* by number */
	uint64_t first_ns;	   /* start of the first slot */
	uint64_t sure_ns;	   /* blocks born earlier are in doubt, or not in slots */
	uint64_t sure_activity;
	uint64_t missed_ns; /* since then */
	/* Resumed: the end of what is known, and the other activity at last_ns and then. */
	uint64_t past_ns, past_last_ns, past_activity, past_last_activity;
	uint64_t last_ns;	/* of the last event */
	uint64_t last_activity; /* the process's, at that time */
	uint64_t last_birth_ns; /* of any block */
	uint64_t last_free_ns;	/* 0: none */
	uint64_t allocations, frees;
	uint64_t live_bytes, live_count, peak_bytes;
	uint32_t age[HISTORY_AGES]; /* frees by the age of the block */
	uint8_t count, room;	    /* of slots */
	uint8_t shift;		    /* a slot is 2^shift ns wide */
};

/* `activity` counts what the process does, of whatever kind: in a process that does nothing, the
 * time says nothing. -ENOMEM: the block is counted, but is in no slot. */
int history_allocated(struct history *history, uint64_t now_ns, uint64_t bytes, uint64_t activity);
/* A block that was there already. If the history was resumed, it is known since when; else it is in
 * doubt. */
void history_found(struct history *history, uint64_t born_ns, uint64_t bytes);
/* It starts now, unless it has. */
void history_watch(struct history *history, uint64_t now_ns, uint64_t activity);
void history_freed(struct history *history, uint64_t born_ns, uint64_t now_ns, uint64_t bytes,
		   uint64_t activity);
/* What happened in this time was not seen: blocks that may have been freed in it are in doubt. */
void history_missed(struct history *history, uint64_t since_ns, uint64_t until_ns,
		    uint64_t activity);
/* What is left of a history whose daemon has ended, besides the blocks that live still. */
struct history_past {
	uint64_t since_ns;	    /* its sure_ns */
	uint64_t told_ns, birth_ns; /* of what follows, and of the last block before it */
	uint64_t last_ns;	    /* the last event before it */
	uint64_t allocations, frees, peak_bytes;
	uint64_t activity, last_activity; /* at told_ns, and at last_ns; 0: unknown */
	const char *ages;		  /* as history_ages() */
};

/* Frees by age as a text, each within 15 %. */
void history_ages(const struct history *history, char text[HISTORY_AGES + 1]);
/* Of an empty one, before its blocks are found. -EINVAL: this cannot be; -ENOMEM. */
int history_resume(struct history *history, const struct history_past *past);
/* Of what is live, how much was allocated in the last minute: where slots are wide, estimated. */
uint64_t history_recent_bytes(const struct history *history, uint64_t now_ns);
/* Gives its memory back. */
void history_clear(struct history *history);

static inline uint64_t history_slot_ns(const struct history *history, uint32_t number)
{
	return history->first_ns + ((uint64_t)number << history->shift);
}

/* The smallest age that counts as this one. */
uint64_t history_age_ns(unsigned int age);

#endif
