/* Tickets: what another part of the daemon answers later, to clients that may have left, and who
 * may ask for it. */
#include <grp.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "proto/event.h"
#include "tests/unit/api_fixture.h"

#define NOBODY 65534

static void send_attach(struct peer *peer, uint64_t id, const Tracesmith__V1__AttachRequest *attach)
{
	Tracesmith__V1__Request request = TRACESMITH__V1__REQUEST__INIT;

	request.id = id;
	request.body_case = TRACESMITH__V1__REQUEST__BODY_ATTACH;
	request.attach = (Tracesmith__V1__AttachRequest *)attach;
	peer_send(peer, &request);
}

static void send_attach_to(struct peer *peer, uint64_t id, uint32_t pid)
{
	Tracesmith__V1__AttachRequest attach = TRACESMITH__V1__ATTACH_REQUEST__INIT;

	attach.pid = pid;
	send_attach(peer, id, &attach);
}

static void send_detach(struct peer *peer, uint64_t id, uint32_t pid)
{
	Tracesmith__V1__DetachRequest detach = TRACESMITH__V1__DETACH_REQUEST__INIT;
	Tracesmith__V1__Request request = TRACESMITH__V1__REQUEST__INIT;

	detach.pid = pid;
	request.id = id;
	request.body_case = TRACESMITH__V1__REQUEST__BODY_DETACH;
	request.detach = &detach;
	peer_send(peer, &request);
}

static void send_stack(struct peer *peer, uint64_t id, uint32_t pid)
{
	Tracesmith__V1__StackRequest stack = TRACESMITH__V1__STACK_REQUEST__INIT;
	Tracesmith__V1__Request request = TRACESMITH__V1__REQUEST__INIT;

	stack.pid = pid;
	request.id = id;
	request.body_case = TRACESMITH__V1__REQUEST__BODY_STACK;
	request.stack = &stack;
	peer_send(peer, &request);
}

static void send_cancel(struct peer *peer, uint64_t id, uint64_t other)
{
	Tracesmith__V1__CancelRequest cancel = TRACESMITH__V1__CANCEL_REQUEST__INIT;
	Tracesmith__V1__Request request = TRACESMITH__V1__REQUEST__INIT;

	cancel.request = other;
	request.id = id;
	request.body_case = TRACESMITH__V1__REQUEST__BODY_CANCEL;
	request.cancel = &cancel;
	peer_send(peer, &request);
}

static void wait_tickets(struct server *server, unsigned int count)
{
	for (int tries = 0; server->ticket_count != count; pause_ms(1))
		assert_true(++tries < DEADLINE_S * 1000);
}

static void fail_all(struct server *server)
{
	for (unsigned int i = 0; i < server->ticket_count; i++)
		api_ticket_fail(server->ticket[i], REASON(NO_CUDA), "1", NULL);
	server->ticket_count = 0;
}

static void expect_none_wanted(struct server *server)
{
	for (unsigned int i = 0; i < server->ticket_count; i++)
		assert_false(api_ticket_wanted(server->ticket[i]));
}

static void expect_all_wanted(struct server *server)
{
	for (unsigned int i = 0; i < server->ticket_count; i++)
		assert_true(api_ticket_wanted(server->ticket[i]));
}

static void answer_attach(struct server *server)
{
	static const char *const notes[] = { "One.", "Two." };
	const struct api_attach_result result = { .stopped_ns = 800000,
						  .stops = 1,
						  .library = "/usr/lib/libcupti.so.13",
						  .cupti_version = 130001,
						  .records = 7,
						  .stacks = TS_STACKS_ALL,
						  .note = notes,
						  .note_count = 2 };

	api_attach_done(server->ticket[0], &result);
	server->ticket_count = 0;
}

static void answer_detach(struct server *server)
{
	const struct api_detach_result result = {
		.stopped_ns = 1, .records = 2, .lost = 3, .unloaded = true
	};

	api_detach_done(server->ticket[0], &result);
	server->ticket_count = 0;
}

static void test_attach_is_answered_when_it_is_done(void **state)
{
	Tracesmith__V1__AttachRequest attach = TRACESMITH__V1__ATTACH_REQUEST__INIT;
	struct server *server = *state;
	struct peer peer = peer_connect(server);
	Tracesmith__V1__Reply *reply;

	attach.pid = getpid();
	attach.records = TS_RECORD_KERNELS;
	attach.stacks = TS_STACKS_SAMPLED;
	attach.budget_ppm = 30000;
	attach.seccomp = true;
	send_attach(&peer, 4, &attach);
	wait_tickets(server, 1);
	assert_int_equal(server->attach.target.pid, getpid());
	assert_int_equal(server->attach.target.asker, getpid());
	assert_int_equal(server->attach.target.uid, geteuid());
	assert_true(server->attach.target.started_ticks > 0);
	assert_int_equal(server->attach.wanted.records, TS_RECORD_KERNELS);
	assert_int_equal(server->attach.wanted.stacks, TS_STACKS_SAMPLED);
	assert_int_equal(server->attach.wanted.budget_ppm, 30000);
	assert_true(server->attach.seccomp);
	/* The connection is served meanwhile. */
	send_sql(&peer, 5, "SELECT 1", 0);
	assert_int_equal(count_rows(&peer, 5), 1);
	server_act(server, expect_all_wanted);
	server_act(server, answer_attach);
	reply = peer_read(&peer);
	assert_non_null(reply);
	assert_int_equal(reply->id, 4);
	assert_int_equal(reply->body_case, TRACESMITH__V1__REPLY__BODY_ATTACH);
	assert_int_equal(reply->attach->stopped_ns, 800000);
	assert_string_equal(reply->attach->library, "/usr/lib/libcupti.so.13");
	assert_true(reply->attach->ready_ns > 0);
	assert_int_equal(reply->attach->stacks, TS_STACKS_ALL);
	assert_int_equal(reply->attach->n_note, 2);
	assert_string_equal(reply->attach->note[1], "Two.");
	reply_done(reply);
	peer_done(&peer);
}

static void test_detach_is_answered_too(void **state)
{
	struct server *server = *state;
	struct peer peer = peer_connect(server);
	Tracesmith__V1__Reply *reply;

	send_detach(&peer, 9, getpid());
	wait_tickets(server, 1);
	assert_int_equal(server->detach.pid, getpid());
	server_act(server, answer_detach);
	reply = peer_read(&peer);
	assert_non_null(reply);
	assert_int_equal(reply->id, 9);
	assert_int_equal(reply->body_case, TRACESMITH__V1__REPLY__BODY_DETACH);
	assert_int_equal(reply->detach->lost, 3);
	assert_true(reply->detach->unloaded);
	reply_done(reply);
	peer_done(&peer);
}

static void test_failure_is_an_error_with_its_sentence(void **state)
{
	struct server *server = *state;
	struct peer peer = peer_connect(server);
	Tracesmith__V1__Reply *reply;

	send_attach_to(&peer, 1, getpid());
	wait_tickets(server, 1);
	server_act(server, fail_all);
	reply = peer_read(&peer);
	assert_non_null(reply);
	assert_int_equal(reply->body_case, TRACESMITH__V1__REPLY__BODY_ERROR);
	assert_int_equal(reply->error->code, TRACESMITH__V1__ERROR__CODE__NO_CUDA);
	assert_int_equal(reply->error->remark[0]->reason, REASON(NO_CUDA));
	assert_string_equal(reply->error->message,
			    "Process 1 does not use CUDA (libcuda.so is not mapped): try again "
			    "when it does");
	reply_done(reply);
	peer_done(&peer);
}

static void test_answer_to_a_client_that_left_goes_nowhere(void **state)
{
	struct server *server = *state;
	struct peer peer = peer_connect(server);

	send_attach_to(&peer, 1, getpid());
	send_detach(&peer, 2, getpid());
	wait_tickets(server, 2);
	peer_done(&peer);
	wait_for(server, "clients", 1);
	server_act(server, expect_none_wanted);
	server_act(server, fail_all);
	assert_int_equal(status_of(server, "clients"), 1);
}

static void test_cancelled_attach_says_so_and_is_answered_to_nobody(void **state)
{
	struct server *server = *state;
	struct peer peer = peer_connect(server);
	Tracesmith__V1__Reply *reply;

	send_attach_to(&peer, 1, getpid());
	wait_tickets(server, 1);
	send_cancel(&peer, 2, 1);
	expect_error(&peer, 1, TRACESMITH__V1__ERROR__CODE__CANCELLED);
	reply = peer_read(&peer);
	assert_non_null(reply);
	assert_int_equal(reply->id, 2);
	assert_int_equal(reply->body_case, TRACESMITH__V1__REPLY__BODY_DONE);
	reply_done(reply);
	server_act(server, expect_none_wanted);
	server_act(server, answer_attach);
	send_sql(&peer, 3, "SELECT 1", 0);
	assert_int_equal(count_rows(&peer, 3), 1);
	peer_done(&peer);
}

static void test_api_may_end_before_the_answer(void **state)
{
	struct server *server = *state;
	struct peer peer;

	assert_int_equal(server_start(server), 0);
	peer = peer_connect(server);
	send_attach_to(&peer, 1, getpid());
	wait_tickets(server, 1);
	server_stop(server);
	expect_none_wanted(server);
	answer_attach(server);
	expect_end(&peer);
	peer_done(&peer);
}

static void test_requests_that_nobody_waits_for_are_bounded(void **state)
{
	struct server *server = *state;
	struct peer peer;

	for (unsigned int i = 1; i <= LIMIT_TICKETS / 2; i++) {
		peer = peer_connect(server);
		send_attach_to(&peer, 1, getpid());
		wait_tickets(server, i);
		peer_done(&peer);
	}
	peer = peer_connect(server);
	send_attach_to(&peer, 1, getpid());
	expect_error(&peer, 1, TRACESMITH__V1__ERROR__CODE__LIMIT);
	server_act(server, fail_all);
	send_attach_to(&peer, 1, getpid());
	wait_tickets(server, 1);
	server_act(server, fail_all);
	expect_error(&peer, 1, TRACESMITH__V1__ERROR__CODE__NO_CUDA);
	peer_done(&peer);
}

static void test_an_id_is_used_once_at_a_time(void **state)
{
	struct server *server = *state;
	struct peer peer = peer_connect(server);

	send_attach_to(&peer, 1, getpid());
	wait_tickets(server, 1);
	send_sql(&peer, 1, "SELECT 1", 0);
	expect_error(&peer, 0, TRACESMITH__V1__ERROR__CODE__BAD_REQUEST);
	expect_end(&peer);
	server_act(server, fail_all);
	peer_done(&peer);
}

/* A pid that was somebody's, and is nobody's now. */
static pid_t ended_pid(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	return pid;
}

static void test_what_cannot_be_attached_to_is_refused(void **state)
{
	Tracesmith__V1__AttachRequest attach = TRACESMITH__V1__ATTACH_REQUEST__INIT;
	struct server *server = *state;
	struct peer peer = peer_connect(server);

	send_attach_to(&peer, 1, 0);
	expect_error(&peer, 1, TRACESMITH__V1__ERROR__CODE__BAD_REQUEST);
	send_attach_to(&peer, 2, (1 << 22) + 1);
	expect_error(&peer, 2, TRACESMITH__V1__ERROR__CODE__BAD_REQUEST);
	send_detach(&peer, 3, UINT32_MAX);
	expect_error(&peer, 3, TRACESMITH__V1__ERROR__CODE__BAD_REQUEST);
	send_attach_to(&peer, 4, ended_pid());
	expect_error(&peer, 4, TRACESMITH__V1__ERROR__CODE__NOT_FOUND);
	attach.pid = getpid();
	attach.stacks = TS_STACKS_ALL + 1;
	send_attach(&peer, 5, &attach);
	expect_error(&peer, 5, TRACESMITH__V1__ERROR__CODE__BAD_REQUEST);
	attach.stacks = 0;
	attach.records = 1u << 31;
	send_attach(&peer, 6, &attach);
	expect_error(&peer, 6, TRACESMITH__V1__ERROR__CODE__BAD_REQUEST);
	attach.records = 0;
	attach.budget_ppm = 1000001;
	send_attach(&peer, 7, &attach);
	expect_error(&peer, 7, TRACESMITH__V1__ERROR__CODE__BAD_REQUEST);
	assert_int_equal(server->ticket_count, 0);
	peer_done(&peer);
}

/* In a child, where nothing may be asserted; it ends with an alarm where no answer comes. */
static int denied(const struct server *server, uint32_t pid,
		  void (*send)(struct peer *peer, uint64_t id, uint32_t pid))
{
	struct peer peer = peer_connect(server);
	Tracesmith__V1__Reply *reply;

	alarm(DEADLINE_S);
	send(&peer, 1, pid);
	reply = peer_read(&peer);
	alarm(0);
	return reply && reply->body_case == TRACESMITH__V1__REPLY__BODY_ERROR &&
	       reply->error->code == TRACESMITH__V1__ERROR__CODE__DENIED;
}

static int become_member(uid_t saved)
{
	const gid_t member = getgrnam(GROUP)->gr_gid;

	return setgroups(1, &member) < 0 || setgid(NOBODY) < 0 ||
	       setresuid(NOBODY, NOBODY, saved) < 0;
}

/* A process that looks like the member's, and can become root again. */
static pid_t start_half_root(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		become_member(0);
		prctl(PR_SET_DUMPABLE, 1);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	/* Its name changes hands when it has become the member. */
	for (int tries = 0; tries < DEADLINE_S * 1000; tries++, pause_ms(1)) {
		char path[64];
		struct stat st;

		snprintf(path, sizeof(path), "/proc/%d/environ", pid);
		if (stat(path, &st) == 0 && st.st_uid == NOBODY)
			return pid;
	}
	fail_msg("it did not become a member");
	return -1;
}

/* As an ordinary member of the group: asks for a process of root's, for one that is half root's,
 * for itself while it is closed to debuggers as after a set-uid program, and for itself. */
static int ask_as_member(const struct server *server, pid_t roots, pid_t half, int told)
{
	struct peer peer;

	if (become_member(NOBODY) != 0)
		return 2;
	if (!denied(server, roots, send_attach_to) || !denied(server, half, send_attach_to))
		return 3;
	if (!denied(server, roots, send_stack) || !denied(server, half, send_stack))
		return 6;
	if (prctl(PR_GET_DUMPABLE) != 0 || !denied(server, getpid(), send_attach_to) ||
	    !denied(server, getpid(), send_stack))
		return 4;
	if (write(told, "", 1) != 1)
		return 5;
	prctl(PR_SET_DUMPABLE, 1);
	peer = peer_connect(server);
	send_attach_to(&peer, 1, getpid());
	pause(); /* until the parent has seen it */
	return 0;
}

static void test_members_of_the_group_may_only_do_it_to_their_own(void **state)
{
	struct server *server = *state;
	pid_t roots = getpid(), half, pid;
	int told[2];
	char byte;

	if (geteuid() != 0)
		skip();
	chmod(server->store->directory, 0755);
	half = start_half_root();
	assert_int_equal(pipe(told), 0);
	pid = fork();
	if (pid == 0)
		_exit(ask_as_member(server, roots, half, told[1]));
	close(told[1]);
	/* All that had to be denied was; at the end of the pipe it was not. */
	assert_int_equal(read(told[0], &byte, 1), 1);
	wait_tickets(server, 1);
	assert_int_equal(server->attach.target.uid, NOBODY);
	assert_int_equal(server->attach.target.pid, pid);
	server_act(server, fail_all);
	close(told[0]);
	kill(pid, SIGKILL);
	kill(half, SIGKILL);
	waitpid(pid, NULL, 0);
	waitpid(half, NULL, 0);
}

#define WITH_SERVER(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
#define WITH_STORE(test)  cmocka_unit_test_setup_teardown(test, setup_store, teardown_store)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_SERVER(test_attach_is_answered_when_it_is_done),
		WITH_SERVER(test_detach_is_answered_too),
		WITH_SERVER(test_failure_is_an_error_with_its_sentence),
		WITH_SERVER(test_answer_to_a_client_that_left_goes_nowhere),
		WITH_SERVER(test_cancelled_attach_says_so_and_is_answered_to_nobody),
		WITH_STORE(test_api_may_end_before_the_answer),
		WITH_SERVER(test_requests_that_nobody_waits_for_are_bounded),
		WITH_SERVER(test_an_id_is_used_once_at_a_time),
		WITH_SERVER(test_what_cannot_be_attached_to_is_refused),
		WITH_SERVER(test_members_of_the_group_may_only_do_it_to_their_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
