/* attach_story.h: shared by the tests of attaching. */
#ifndef TS_ATTACH_STORY_H
#define TS_ATTACH_STORY_H

#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/unit/attach_fixture.h"

#include <cmocka.h>

static void refuses(struct victim *victim, bool seccomp, int error, const char *word)
{
	struct attach_request request = { .pid = victim->pid,
					  .library = fixture_library(),
					  .seccomp = seccomp };
	struct attach_result result;
	char why[ATTACH_WHY_MAX] = "", number[16];

	assert_int_equal(attach_run(&request, &result, why), error);
	snprintf(number, sizeof(number), "%d", victim->pid);
	if (!strstr(why, word) || !strstr(why, number))
		fail_msg("'%s' does not say '%s'", why, word);
}

/* Attaches, hears the library, sends it away and unloads it. */
static void cycle(struct victim *victim, struct attach_result *ret)
{
	char why[ATTACH_WHY_MAX];
	int r = victim_attach(victim, ENTRY_STARTS, ret, why);

	if (r < 0)
		fail_msg("attach: %s", why);
	assert_true(fixture_hears(ret->socket, TS_MESSAGE_HELLO));
	assert_true(fixture_dismiss(ret->socket));
	close(ret->socket);
	r = attach_unload(victim->pid, 0, ret->handle, why);
	if (r < 0)
		fail_msg("unload: %s", why);
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

#endif
