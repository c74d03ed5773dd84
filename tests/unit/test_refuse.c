/* test_refuse: clients of a daemon that cannot start get the reason, and none is left waiting.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/api/refuse.h"
#include "proto/control.pb-c.h"
#include "proto/frame.h"

#define CLIENTS 3

static struct sockaddr_un address = { .sun_family = AF_UNIX };
static int listening, client[CLIENTS];

static int setup(void **state)
{
	snprintf(address.sun_path, sizeof(address.sun_path), "/tmp/test_refuse.%d", getpid());
	listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(listening, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(listening, 16), 0);
	for (int i = 0; i < CLIENTS; i++) {
		client[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		assert_int_equal(connect(client[i], (struct sockaddr *)&address, sizeof(address)),
				 0);
	}
	return 0;
}

static int teardown(void **state)
{
	for (int i = 0; i < CLIENTS; i++)
		close(client[i]);
	close(listening);
	unlink(address.sun_path);
	return 0;
}

static void expect_nobody_waits(void)
{
	assert_int_equal(accept(listening, NULL, NULL), -1);
	assert_int_equal(errno, EAGAIN);
}

/* What a client gets: one reply, then the end. */
static void expect_refused(int fd, const char *sentence)
{
	Tracesmith__V1__Reply *reply;
	uint8_t data[4096];
	ssize_t size = 0, n;

	while ((n = recv(fd, data + size, sizeof(data) - (size_t)size, 0)) > 0)
		size += n;
	assert_true(size > 4);
	reply = tracesmith__v1__reply__unpack(NULL, (size_t)size - 4, data + 4);
	assert_non_null(reply);
	assert_int_equal(reply->id, 0); /* about the connection */
	assert_int_equal(reply->body_case, TRACESMITH__V1__REPLY__BODY_ERROR);
	assert_string_equal(reply->error->message, sentence);
	tracesmith__v1__reply__free_unpacked(reply, NULL);
}

static void each_who_waits_is_told_why(void **state)
{
	/* A client has sent its first request by then. */
	assert_int_equal(send(client[1], "request", 7, 0), 7);
	refuse_waiting(listening, "It is Sunday.");
	for (int i = 0; i < CLIENTS; i++)
		expect_refused(client[i], "It is Sunday.");
	expect_nobody_waits();
}

static void without_a_sentence_they_are_only_let_go(void **state)
{
	char byte;

	refuse_waiting(listening, NULL);
	for (int i = 0; i < CLIENTS; i++)
		assert_int_equal(recv(client[i], &byte, 1, 0), 0);
	expect_nobody_waits();
	refuse_waiting(listening, NULL); /* it does not wait for more */
	refuse_waiting(-1, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(each_who_waits_is_told_why, setup, teardown),
		cmocka_unit_test_setup_teardown(without_a_sentence_they_are_only_let_go, setup,
						teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
