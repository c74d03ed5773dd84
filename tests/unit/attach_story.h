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
	struct remarks why = { 0 };
	const char *said;
	char number[16];

	assert_int_equal(attach_run(&request, &result, &why), error);
	said = remarks_text(&why);
	snprintf(number, sizeof(number), "%d", victim->pid);
	if (!strstr(said, word) || !strstr(said, number))
		fail_msg("'%s' does not say '%s'", said, word);
	remarks_clear(&why);
}

/* Attaches, hears the library, sends it away and unloads it. */
static void cycle(struct victim *victim, struct attach_result *ret)
{
	struct remarks why = { 0 };
	int r = victim_attach(victim, ENTRY_STARTS, ret, &why);

	if (r < 0)
		fail_msg("attach: %s", remarks_text(&why));
	assert_true(fixture_hears(ret->socket, TS_MESSAGE_HELLO));
	assert_true(fixture_dismiss(ret->socket));
	close(ret->socket);
	r = attach_unload(victim->pid, 0, ret->handle, &why);
	if (r < 0)
		fail_msg("unload: %s", remarks_text(&why));
	remarks_clear(&why);
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
