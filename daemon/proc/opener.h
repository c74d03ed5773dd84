/* opener.h: opens what of other processes only those may open who may trace them.
 *
 * Whoever reads what others have written has no capability. So each helper has a process beside it
 * that has them, and this one way to ask it; the loop has one, too. It reads nothing that others
 * have written but names in /proc. Whoever has taken its asker over asks as well: so it opens
 * nothing for writing, no file but programs and libraries, and no memory that may hold the secrets
 * of the host.
 *
 * An answer may take as long as the other process likes: the asker is killed then, and its opener
 * with it. Without an opener all of it is done here, by who has the right, who is trusted.
 */
#ifndef TS_OPENER_H
#define TS_OPENER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum opener_kind {
	OPENER_MAPS,	/* /proc/PID/maps */
	OPENER_MAPPED,	/* the file that is mapped from `start` to `end`: as O_PATH */
	OPENER_PATH,	/* a file by its path, in the root of the process, or (0) ours: as O_PATH */
	OPENER_FILE,	/* what such a descriptor is of, for reading */
	OPENER_PROGRAM, /* the process's own file: as O_PATH */
	OPENER_MEMORY,	/* for reading; fails after an exec */
	/* Of a thread, as text, by opener_read(): the kernel checks the reader. */
	OPENER_STAT,	  /* /proc/PID/stat, with addresses */
	OPENER_CALL,	  /* its system call */
	OPENER_WAITS,	  /* where in the kernel it waits */
	OPENER_VARIABLES, /* of its environment those that say what it is part of: see variables.h
			   */
	/* The loop asks for these only: they wait for nobody. */
	OPENER_THREADS, /* its PID namespace */
	OPENER_OWNER,	/* no descriptor, but the owner of its user namespace: see owner.h */
	OPENER_KINDS
};

struct opener_request {
	uint32_t kind, pid;
	uint64_t start, end;
	const char *path; /* OPENER_PATH only */
	int file;	  /* OPENER_FILE only */
};

enum opener_asker {
	OPENER_OF_HELPER, /* who is killed if an answer takes too long */
	OPENER_OF_LOOP,	  /* whose opener does nothing else for whoever has taken it over */
};

/* Forks it; before the caller has threads and gives its rights up. It ends with the caller's
 * thread. `kept` is a descriptor that it keeps, or -1: so its other end tells when both are gone.
 */
int opener_start(enum opener_asker asker, int kept);
/* Its socket, whose other end is the opener's. */
int opener_life(void);

/* A descriptor, or of OPENER_OWNER 0 and *ret_number. -EACCES: it refuses; -EPIPE: it is gone;
 * -ETIMEDOUT: it does not answer, for the loop. */
int opener_ask(const struct opener_request *request, uint32_t *ret_number);
/* Of a process, or of a thread. */
int opener_open(enum opener_kind kind, uint32_t pid);
/* Text and a NUL: how many bytes. */
ssize_t opener_read(enum opener_kind kind, uint32_t pid, char *ret, size_t size);

/* As it does it: for who is not trusted, with what it refuses. And one message of its asker; false:
 * nobody is there any more. */
int opener_act(const struct opener_request *request, bool trusted, uint32_t *ret_number);
bool opener_serve(int socket);

#endif
