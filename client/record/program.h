/* program.h: starts a program to be recorded, and tracks its processes.
 *
 * These are its descendants. Orphans among them become our children (PR_SET_CHILD_SUBREAPER), so
 * looking at our children and theirs a few times a second finds all but those that lived for less;
 * for these the daemon knows the parent. */
#ifndef TS_CLIENT_RECORD_PROGRAM_H
#define TS_CLIENT_RECORD_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct record_kin {
	uint32_t pid;
	bool ended;
};

struct record_program {
	const char *name;
	pid_t pid;
	bool ended;
	int status; /* as from wait(2), once it has ended */
	struct record_kin *kin;
	size_t kin_count, kin_room;
};

/* Starts it; from then on our signals are passed on to it. Returns 0, or an exit status if that
 * failed and the error was printed. */
int record_program_start(struct record_program *program, char **argument);
/* Looks for new children and ended processes. */
void record_program_look(struct record_program *program);
/* Whether the process with this ID and parent belongs to it; if so, so do its children. */
bool record_program_owns(struct record_program *program, uint32_t pid, uint32_t ppid);
int record_program_exit_status(const struct record_program *program);
void record_program_done(struct record_program *program);

#endif
