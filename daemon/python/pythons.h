/* pythons.h: the Python of processes that use the driver. Says where the BPF programs find its
 * frames, and names the frames that they have found.
 *
 * A helper of each user reads the memory of his processes. That may take as long as a process
 * likes: the helper is killed after LIMIT_PYTHON_NAME_MS, and the process then left alone for a
 * while.
 */
#ifndef TS_PYTHONS_H
#define TS_PYTHONS_H

#include <stdbool.h>
#include <stdint.h>

#include "bpf/probe.h"
#include "daemon/helper/helper.h"

struct pythons;

/* The frames of a stack, as they came; then with their names. */
struct pythons_name {
	char *function, *file; /* NULL: not known; the receiver takes them */
	uint32_t line;
	bool hidden; /* Python does not show it */
};

/* Where the programs may look now, and where in which file it frees code objects: the receiver may
 * take the descriptor; -1: that is not known. */
struct pythons_found {
	uint32_t pid, user;
	struct ts_python place;
	int file;
	uint64_t freeing;
};

struct pythons_callbacks {
	void (*found)(void *data, struct pythons_found *found);
	/* `stack` is what was passed to pythons_ask(). */
	void (*named)(void *data, void *stack, const struct ts_python_frame *frame,
		      struct pythons_name *name, uint32_t count);
};

/* `kind` is the one that runs pythons_help(). */
int pythons_new(struct helpers *helpers, uint32_t kind, const struct pythons_callbacks *callbacks,
		void *data, struct pythons **ret);
/* All stacks that wait are answered at once, without names. NULL is fine; returns NULL. */
struct pythons *pythons_free(struct pythons *pythons);

/* Whether a process runs Python; it is looked at again now and then, in case it starts later. This
 * and the next do nothing for NULL. */
void pythons_look(struct pythons *pythons, uint32_t pid, uint64_t now_ns);
/* It has ended, or runs another program. */
void pythons_forget(struct pythons *pythons, uint32_t pid);

/* The answers for the processes of one user come in the order of the questions, each before that of
 * his next look. -EAGAIN: too many of his are waiting, or the process was late a moment ago. */
int pythons_ask(struct pythons *pythons, uint32_t pid, uint32_t user, const void *frames,
		uint32_t count, void *stack);
/* How many were asked since the start, and before which of them all are answered. */
uint64_t pythons_asked(const struct pythons *pythons);
uint64_t pythons_answered(const struct pythons *pythons);

struct pythons_stats {
	uint64_t found, unsupported, unreadable; /* processes */
	uint64_t named, gone;			 /* frames; those that no longer had their code */
	uint64_t late;				 /* stacks that got no names in time */
};
void pythons_stats(const struct pythons *pythons, struct pythons_stats *ret);

#endif
