/* user.h: names of users. A name service may take seconds to answer, so it is asked on a thread of
 * the uv pool, one question at a time. Lives on the loop. */
#ifndef TS_USER_H
#define TS_USER_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct users;

/* `named` gets the name of each process's user that was asked for; not where there is none. */
int users_new(uv_loop_t *loop, void (*named)(void *data, uint32_t process, const char *name),
	      void *data, struct users **ret);
/* Forgets the questions; frees itself when the one that is under way has its answer. */
void users_close(struct users *users);

/* Answers now if the name is known, else later. Beyond LIMIT_USER_QUESTIONS: never. */
void users_ask(struct users *users, uint32_t uid, uint32_t process);
/* Some have no answer yet. */
bool users_waiting(const struct users *users);

#endif
