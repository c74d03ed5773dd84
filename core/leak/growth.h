/* growth.h: the histories of all stacks that allocate, by process, device, kind of memory, function
 * and stack, and when each is judged anew. Pure: it knows nothing of the model.
 *
 * There are as many as the users' shares allow. A process that has more gives up those of stacks of
 * which nothing lives; a stack without a history has no verdict.
 */
#ifndef TS_LEAK_GROWTH_H
#define TS_LEAK_GROWTH_H

#include "core/base/list.h"
#include "core/base/map.h"
#include "core/base/quota.h"
#include "core/leak/verdict.h"

/* What a process has. */
struct growing {
	struct list growths; /* the one least recently used first */
	uint64_t calls;	     /* its activity */
	/* Up to when what was missed is known: of all, and of one kind of memory. */
	uint64_t missed_ns[2];
	uint32_t process, user;
	/* Iterations, where the program marks them. */
	uint64_t steps, step_first_ns, step_last_ns;
};

struct growth_place {
	uint64_t stack_id;
	uint16_t fn;
	int16_t device;
	uint8_t kind;
};

struct growth {
	struct list link;   /* in the process */
	struct list in_all; /* the next to be looked at first */
	struct growing *of;
	struct growth_place place;
	struct history history;
	uint64_t due_ns; /* when it is judged again */
	uint64_t told_frees, told_allocations, told_since_ns;
	uint8_t told; /* enum verdict_kind; 0: none yet */
};

struct growths {
	struct map by_place;
	struct list all;
	struct quota *share;
	uint32_t looks; /* left in this turn */
};

void growths_init(struct growths *growths, struct quota *share);
/* All must have been forgotten. */
void growths_release(struct growths *growths);

void growing_init(struct growing *growing, uint32_t process, uint32_t user);
void growths_forget(struct growths *growths, struct growing *growing);

void growths_born(struct growths *growths, struct growing *growing,
		  const struct growth_place *place, uint64_t now_ns, uint64_t bytes);
/* It was there before the process was watched. */
void growths_found(struct growths *growths, struct growing *growing,
		   const struct growth_place *place, uint64_t born_ns, uint64_t bytes);
/* What a former daemon knew of it, before its blocks are found. -EINVAL: this cannot be; -ENOSPC:
 * there is no room; -ENOMEM. */
int growths_resume(struct growths *growths, struct growing *growing,
		   const struct growth_place *place, const struct history_past *past);
void growths_gone(struct growths *growths, struct growing *growing,
		  const struct growth_place *place, uint64_t born_ns, uint64_t now_ns,
		  uint64_t bytes);
/* Its allocations and frees of this time, of that kind of memory, may not have been seen. */
#define GROWTHS_ALL 0
void growing_missed(struct growing *growing, uint8_t kind, uint64_t since_ns, uint64_t until_ns);
/* Nothing that was seen of that kind says any more what became of it. */
void growing_start_over(struct growing *growing, uint8_t kind);

/* An iteration has ended. */
void growing_step(struct growing *growing, uint64_t now_ns);
/* How long one takes on average; 0: there are none, or no more. */
double growing_step_ns(const struct growing *growing, uint64_t now_ns);

/* From time to time: */
void growths_turn(struct growths *growths);
/* then, until it is NULL, those of which something new is to be told. */
struct growth *growths_next(struct growths *growths, uint64_t now_ns, struct verdict *ret_verdict);

#endif
