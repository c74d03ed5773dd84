/* program.h: a program that is recorded: starts it, and knows which processes are its own.
 *
 * Those are its descendants. What it leaves behind when a part of it ends becomes a child of ours
 * (PR_SET_CHILD_SUBREAPER), so a look at our children and theirs, a few times a second, finds all
 * but those that lived for less; of these the daemon tells whose children they were.
 */
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
	int status; /* as wait(2) gives it, once it has ended */
	struct record_kin *kin;
	size_t kin_count;
};

/* Starts it; from then on signals that come to us are passed on to it. 0, or the exit status of
 * who cannot: stderr says why. */
int record_program_start(struct record_program *program, char **argument);
/* Learns of children and ends. */
void record_program_look(struct record_program *program);
/* Whether a process of this number and parent belongs to it; if so its children do, too. */
bool record_program_owns(struct record_program *program, uint32_t pid, uint32_t ppid);
int record_program_exit_status(const struct record_program *program);
void record_program_done(struct record_program *program);

#endif
