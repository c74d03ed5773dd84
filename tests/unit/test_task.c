/* Task: what a helper says that attaches, and may have been made to say. */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/cleanup.h"
#include "daemon/exact/internal.h"

static struct helper_task *asked;
static uint32_t links;

int helpers_ask(struct helpers *helpers, struct helper_task *task, const void *request, size_t size,
		const int *fd, uint32_t fds)
{
	asked = task;
	return 0;
}

void helpers_cancel(struct helpers *helpers, struct helper_task *task)
{
	fail();
}

int linker_add(struct linker *linker, struct linking *linking, void (*run)(struct linking *linking),
	       void (*done)(struct linking *linking))
{
	links++;
	return 0;
}

static void begin(struct session *session, enum session_job job)
{
	static struct exact exact;

	*session = (struct session){
		.exact = &exact,
		.pid = (uint32_t)getpid(),
		.job = job,
		.undone = 1,
		.result.socket = -1,
		.light.stub_fd = -1,
	};
	links = 0;
	assert_int_equal(exact_task(session), 0);
}

/* Whether its descriptor was taken. */
static bool say(const struct task_said *said)
{
	int fd = memfd_create("test", MFD_CLOEXEC);
	bool taken;

	asked->message(asked, said, sizeof(*said), &fd, 1);
	taken = fd < 0;
	closep(&fd);
	return taken;
}

static void one_stub_is_taken_from_who_leads_functions(void **state)
{
	const struct task_said stub = { .stub = 255, .stub_offset = 8 };
	struct session session;

	begin(&session, JOB_PUT);
	assert_true(say(&stub));
	assert_int_equal(links, 1);
	assert_false(say(&stub));
	closep(&session.light.stub_fd);
	session.light.stub_fd = -1; /* as the linker's thread does */
	assert_false(say(&stub));
	assert_int_equal(links, 1);
	assert_int_equal(session.undone, 2);

	begin(&session, JOB_ATTACH);
	assert_false(say(&stub));
	assert_int_equal(links, 0);
	assert_int_equal(session.undone, 1);
}

static int error_of(enum session_job job, int32_t error)
{
	struct session session;

	begin(&session, job);
	say(&(struct task_said){ .error = error });
	closep(&session.result.socket);
	remarks_clear(&session.why);
	return session.error;
}

static void errors_are_those_of_the_kernel(void **state)
{
	assert_int_equal(error_of(JOB_ATTACH, 0), 0);
	assert_int_equal(error_of(JOB_ATTACH, -EPERM), -EPERM);
	assert_int_equal(error_of(JOB_ATTACH, 1), -EIO);
	assert_int_equal(error_of(JOB_PUT, INT_MIN), -EIO);
	assert_int_equal(error_of(JOB_TIDY, 1), 1);
	assert_int_equal(error_of(JOB_TIDY, 2), -EIO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_stub_is_taken_from_who_leads_functions),
		cmocka_unit_test(errors_are_those_of_the_kernel),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
