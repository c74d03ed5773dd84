/* User: the questions that wait, and the names that were asked for lately. */
#include "daemon/user.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/limits.h"

#define KNOWN_MAX 64
#define KNOWN_MS  60000 /* a user may get another name */
#define NAME_SIZE 256
#define ROOM	  65536

struct known {
	uint32_t uid;
	uint64_t until_ms; /* 0: a free row */
	char name[NAME_SIZE];
};

struct question {
	uint32_t uid, process;
};

struct users {
	uv_loop_t *loop;
	void (*named)(void *data, uint32_t process, const char *name);
	void *data;
	struct known known[KNOWN_MAX];
	uint32_t next; /* row of `known` that is overwritten next */
	struct question question[LIMIT_USER_QUESTIONS];
	uint32_t questions;
	bool asking, closed;
	uv_work_t work;
	/* Of the question under way; the thread's until it is answered. */
	uint32_t uid;
	char name[NAME_SIZE];
	char room[ROOM];
};

int users_new(uv_loop_t *loop, void (*named)(void *data, uint32_t process, const char *name),
	      void *data, struct users **ret)
{
	struct users *users = calloc(1, sizeof(*users));

	if (!users)
		return -ENOMEM;
	users->loop = loop;
	users->named = named;
	users->data = data;
	users->work.data = users;
	*ret = users;
	return 0;
}

static void on_work(uv_work_t *work)
{
	struct users *users = work->data;
	struct passwd entry, *user = NULL;

	users->name[0] = '\0';
	if (getpwuid_r(users->uid, &entry, users->room, sizeof(users->room), &user) == 0 && user)
		snprintf(users->name, sizeof(users->name), "%s", user->pw_name);
}

static void users_answer(const struct users *users, uint32_t process, const char *name)
{
	if (*name)
		users->named(users->data, process, name);
}

static void users_learn(struct users *users)
{
	struct known *known = &users->known[users->next++ % KNOWN_MAX];
	uint32_t kept = 0;

	known->uid = users->uid;
	known->until_ms = uv_now(users->loop) + KNOWN_MS;
	memcpy(known->name, users->name, sizeof(known->name));
	for (uint32_t i = 0; i < users->questions; i++) {
		struct question question = users->question[i];

		if (question.uid == users->uid)
			users_answer(users, question.process, users->name);
		else
			users->question[kept++] = question;
	}
	users->questions = kept;
}

static void users_next(struct users *users);

static void on_answer(uv_work_t *work, int status)
{
	struct users *users = work->data;

	users->asking = false;
	if (users->closed) {
		free(users);
		return;
	}
	users_learn(users);
	users_next(users);
}

static void users_next(struct users *users)
{
	if (users->asking || !users->questions)
		return;
	users->uid = users->question[0].uid;
	users->asking = uv_queue_work(users->loop, &users->work, on_work, on_answer) == 0;
}

static const struct known *users_known(const struct users *users, uint32_t uid)
{
	for (int i = 0; i < KNOWN_MAX; i++)
		if (users->known[i].uid == uid && users->known[i].until_ms > uv_now(users->loop))
			return &users->known[i];
	return NULL;
}

void users_ask(struct users *users, uint32_t uid, uint32_t process)
{
	const struct known *known = users_known(users, uid);

	if (known) {
		users_answer(users, process, known->name);
		return;
	}
	if (users->questions == LIMIT_USER_QUESTIONS)
		return;
	users->question[users->questions++] = (struct question){ uid, process };
	users_next(users);
}

bool users_waiting(const struct users *users)
{
	return users->questions > 0;
}

void users_close(struct users *users)
{
	if (!users)
		return;
	users->closed = true;
	users->questions = 0;
	if (!users->asking)
		free(users);
}
