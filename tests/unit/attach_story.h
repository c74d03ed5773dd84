/* attach_story.h: shared by the tests of attaching. */
#ifndef TS_ATTACH_STORY_H
#define TS_ATTACH_STORY_H

#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/unit/attach_fixture.h"

#include <cmocka.h>

static inline void refuses(struct victim *victim, bool seccomp, int error, const char *word)
{
	struct attach_request request = { .pid = victim->pid,
					  .library = fixture_library(),
					  .seccomp = seccomp };
	struct attach_result result;
	struct remarks why = { 0 };
	const char *said;
	char number[16];
	int r;

	if (error == -EAGAIN)
		r = attach_run(&request, &result, &why);
	else
		r = attach_again(&request, &result, &why);
	said = remarks_text(&why) ?: "";
	if (r != error)
		fail_msg("%d instead of %d, '%s'", r, error, said);
	snprintf(number, sizeof(number), "%d", victim->pid);
	if (!strstr(said, word) || !strstr(said, number))
		fail_msg("'%s' does not say '%s'", said, word);
	remarks_clear(&why);
}

/* Attaches, hears the library, sends it away and unloads it. */
static inline void cycle(struct victim *victim, struct attach_result *ret)
{
	struct remarks why = { 0 };
	int r = victim_attach(victim, ENTRY_STARTS, ret, &why);

	if (r < 0)
		fail_msg("attach: %d, %s; %s", r, remarks_text(&why), victim_state(victim));
	if (!fixture_hears(ret->socket, TS_MESSAGE_HELLO))
		fail_msg("the library says no hello; %s", victim_state(victim));
	if (!fixture_dismiss(ret->socket))
		fail_msg("the library does not go; %s", victim_state(victim));
	close(ret->socket);
	r = victim_unload(victim, ret->handle, &why);
	if (r < 0)
		fail_msg("unload: %d, %s; %s", r, remarks_text(&why), victim_state(victim));
	remarks_clear(&why);
}

/* A tracer that is the parent as well would take the exit status away: another process attaches. */
static inline pid_t attach_elsewhere(const struct victim *victim, uint32_t entry_does)
{
	pid_t daemon = fork();

	if (!daemon) {
		struct attach_result result;
		struct remarks why = { 0 };
		int r = victim_attach(victim, entry_does, &result, &why);

		if (r < 0 && r != -ESRCH)
			fprintf(stderr, "%s\n", remarks_text(&why));
		_exit(-r);
	}
	return daemon;
}

static inline int elsewhere_end(pid_t daemon)
{
	int status;

	waitpid(daemon, &status, 0);
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -1000;
}

static inline bool victim_does(const struct victim *victim, const char *what, char answer)
{
	struct pollfd wait = { .fd = victim->out, .events = POLLIN };
	char c = 0;

	return send(victim->in, what, 1, MSG_NOSIGNAL) == 1 && poll(&wait, 1, DEADLINE_MS) == 1 &&
	       read(victim->out, &c, 1) == 1 && c == answer;
}

/* Only its own code answers, with its own registers. */
static inline bool victim_answers(const struct victim *victim)
{
	return victim_does(victim, "?", '!');
}

static inline int victim_tidied(const struct victim *victim)
{
	_cleanup_(remarks_clear) struct remarks why = { 0 };
	int r = attach_tidy(victim->pid, 0, &why);

	if (r < 0)
		fail_msg("tidy: %d, %s; %s", r, remarks_text(&why), victim_state(victim));
	return r;
}

static bool ptrace_works(void)
{
	pid_t child = fork();
	bool works;

	if (!child) {
		pause();
		_exit(0);
	}
	works = getuid() == 0 && ptrace(PTRACE_SEIZE, child, NULL, NULL) == 0;
	kill(child, SIGKILL);
	waitpid(child, NULL, __WALL);
	return works;
}

/* What main() returns. */
static int story_run(const struct CMUnitTest *tests, size_t count)
{
	int r;

	if (!ptrace_works()) {
		fprintf(stderr, "skipped: needs root and ptrace\n");
		return 77;
	}
	r = _cmocka_run_group_tests("tests", tests, count, NULL, NULL);
	fixture_end();
	return r;
}

#endif
