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
static void cycle(struct victim *victim, struct attach_result *ret)
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
