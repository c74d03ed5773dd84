/* Verbs: run, attach and detach as a user sees them. The daemon is the real api, with the test in
 * the place of what really attaches; tsctl is this program, run again with a verb. */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "client/file/serve.h"
#include "client/verbs/command.h"
#include "proto/event.h"
#include "proto/paths.h"
#include "tests/unit/api_fixture.h"

#define SAID_MAX 4096

/* A tsctl of its own place, as an installation has it. */
struct place {
	struct server *server;
	char tsctl[192], out[192], err[192];
	char said[SAID_MAX], complained[SAID_MAX];
};

static int place_setup(void **state)
{
	struct place *place = calloc(1, sizeof(*place));
	char command[512];
	void *server;

	setup(&server);
	place->server = server;
	snprintf(place->tsctl, sizeof(place->tsctl), "%s/bin/tsctl",
		 place->server->store->directory);
	snprintf(place->out, sizeof(place->out), "%s/out", place->server->store->directory);
	snprintf(place->err, sizeof(place->err), "%s/err", place->server->store->directory);
	snprintf(command, sizeof(command),
		 "cd %s && mkdir -p bin lib/tracesmith && cp /proc/%d/exe %s",
		 place->server->store->directory, getpid(), place->tsctl);
	assert_int_equal(system(command), 0);
	*state = place;
	return 0;
}

static int place_teardown(void **state)
{
	struct place *place = *state;
	char command[256];
	void *server = place->server;

	snprintf(command, sizeof(command), "cd %s && rm -rf bin lib out err inject.sock",
		 place->server->store->directory);
	assert_int_equal(system(command), 0);
	teardown(&server);
	free(place);
	return 0;
}

static void read_file(const char *path, char text[SAID_MAX])
{
	FILE *file = fopen(path, "r");
	size_t size;

	assert_non_null(file);
	size = fread(text, 1, SAID_MAX - 1, file);
	text[size] = '\0';
	fclose(file);
}

static pid_t start(struct place *place, char *const words[])
{
	char *argv[24] = { "tsctl", "--socket", place->server->path };
	pid_t pid;

	for (int i = 0; words[i]; i++)
		argv[3 + i] = words[i];
	pid = fork();
	if (pid == 0) {
		dup2(open(place->out, O_CREAT | O_TRUNC | O_WRONLY, 0600), STDOUT_FILENO);
		dup2(open(place->err, O_CREAT | O_TRUNC | O_WRONLY, 0600), STDERR_FILENO);
		execv(place->tsctl, argv);
		_exit(99);
	}
	return pid;
}

static int finish(struct place *place, pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	read_file(place->out, place->said);
	read_file(place->err, place->complained);
	return status;
}

#define START(place, ...) start(place, (char *[]){ __VA_ARGS__, NULL })
#define RUN(place, ...)	  finish(place, START(place, __VA_ARGS__))

static void expect_said(const char *said, const char *part)
{
	if (!strstr(said, part))
		fail_msg("'%s' is not in: %s", part, said);
}

static void wait_ticket(struct server *server)
{
	for (int tries = 0; server->ticket_count == 0; pause_ms(1))
		assert_true(++tries < DEADLINE_S * 1000);
}

#define NO_CUDA                                                                                    \
	"tsctl: Process 1 does not use CUDA (libcuda.so is not mapped): try again when it does, "  \
	"or wait for it with --wait\n"

static void no_cuda(struct server *server)
{
	server->ticket_count = 0;
	api_ticket_fail(server->ticket[0], REASON(NO_CUDA), "1", NULL);
}

static void ended(struct server *server)
{
	server->ticket_count = 0;
	api_ticket_fail(server->ticket[0], REASON(PROCESS_ENDED), "1", NULL);
}

static void attached(struct server *server)
{
	static const char *const notes[] = { "CUDA graphs are recorded \"whole\"." };
	const struct api_attach_result result = { .stopped_ns = 800000,
						  .stops = 1,
						  .library = "/opt/libcupti.so.13",
						  .cupti_version = 130001,
						  .records = TS_RECORD_KERNELS | TS_RECORD_COPIES,
						  .stacks = TS_STACKS_SAMPLED,
						  .note = notes,
						  .note_count = 1 };

	server->ticket_count = 0;
	api_attach_done(server->ticket[0], &result);
}

static void detached(struct server *server)
{
	const struct api_detach_result result = { .stopped_ns = 400000, .records = 12, .lost = 3 };

	server->ticket_count = 0;
	api_detach_done(server->ticket[0], &result);
}

static void unloaded(struct server *server)
{
	const struct api_detach_result result = { .stopped_ns = 400000, .unloaded = true };

	server->ticket_count = 0;
	api_detach_done(server->ticket[0], &result);
}

static char *own_pid(void)
{
	static char text[16];

	snprintf(text, sizeof(text), "%d", getpid());
	return text;
}

static void test_attach_tells_what_was_done(void **state)
{
	struct place *place = *state;
	pid_t pid = START(place, "attach", own_pid(), "--records", "kernels,copies", "--stacks",
			  "sampled", "--budget", "3%", "--seccomp");

	wait_ticket(place->server);
	assert_int_equal(place->server->attach.target.asker, pid);
	assert_int_equal(place->server->attach.wanted.records,
			 TS_RECORD_KERNELS | TS_RECORD_COPIES);
	assert_int_equal(place->server->attach.wanted.stacks, TS_STACKS_SAMPLED);
	assert_int_equal(place->server->attach.wanted.budget_ppm, 30000);
	assert_true(place->server->attach.seccomp);
	server_act(place->server, attached);
	assert_int_equal(finish(place, pid), 0);
	expect_said(place->said, "paused for 800 µs; recording started after ");
	expect_said(place->said, "Recording: kernels, copies; call stacks of launches: sampled\n");
	expect_said(place->said, "libcupti 13.0.1 from /opt/libcupti.so.13\n");
	expect_said(place->said, "Note: CUDA graphs are recorded \"whole\".\n");
	assert_string_equal(place->complained, "");
}

static void test_attach_as_an_object(void **state)
{
	struct place *place = *state;
	pid_t pid = START(place, "attach", "--json", own_pid());

	wait_ticket(place->server);
	assert_int_equal(place->server->attach.wanted.records, 0);
	assert_false(place->server->attach.seccomp);
	server_act(place->server, attached);
	assert_int_equal(finish(place, pid), 0);
	expect_said(place->said, "\"stopped_ns\":800000,\"stops\":1,\"ready_ns\":");
	expect_said(place->said,
		    "\"library\":\"/opt/libcupti.so.13\",\"cupti_version\":130001,"
		    "\"records\":[\"kernels\",\"copies\"],\"stacks\":\"sampled\",\"budget\":null,"
		    "\"light_functions\":0,"
		    "\"notes\":[\"CUDA graphs are recorded \\\"whole\\\".\"]}\n");
}

static void test_attach_waits_for_cuda_only_if_asked_to(void **state)
{
	struct place *place = *state;
	pid_t pid = START(place, "attach", own_pid());

	wait_ticket(place->server);
	server_act(place->server, no_cuda);
	assert_int_equal(WEXITSTATUS(finish(place, pid)), EXIT_FAILED);
	assert_string_equal(place->complained, NO_CUDA);
	assert_string_equal(place->said, "");

	pid = START(place, "attach", "--wait", own_pid());
	for (int i = 0; i < 3; i++) {
		wait_ticket(place->server);
		server_act(place->server, no_cuda);
	}
	wait_ticket(place->server);
	server_act(place->server, attached);
	assert_int_equal(finish(place, pid), 0);
	assert_string_equal(place->complained, "");
}

static void test_waiting_ends_with_the_process_or_the_time(void **state)
{
	struct place *place = *state;
	pid_t pid = START(place, "attach", "--wait", own_pid());

	wait_ticket(place->server);
	server_act(place->server, no_cuda);
	wait_ticket(place->server);
	server_act(place->server, ended);
	assert_int_equal(WEXITSTATUS(finish(place, pid)), EXIT_FAILED);
	assert_string_equal(place->complained, "tsctl: Process 1 has ended\n");

	pid = START(place, "attach", "--wait=1ms", own_pid());
	wait_ticket(place->server);
	server_act(place->server, no_cuda);
	wait_ticket(place->server);
	server_act(place->server, no_cuda);
	assert_int_equal(WEXITSTATUS(finish(place, pid)), EXIT_FAILED);
	assert_string_equal(place->complained, NO_CUDA);
}

static void test_detach_tells_what_was_done(void **state)
{
	struct place *place = *state;
	pid_t pid = START(place, "detach", own_pid());

	wait_ticket(place->server);
	assert_int_equal(place->server->detach.pid, getpid());
	server_act(place->server, detached);
	assert_int_equal(finish(place, pid), 0);
	expect_said(place->said, "after 12 records, 3 of them lost\n");
	expect_said(place->said, "The library stays loaded");
	pid = START(place, "detach", own_pid());
	wait_ticket(place->server);
	server_act(place->server, unloaded);
	assert_int_equal(finish(place, pid), 0);
	expect_said(place->said, "The library was unloaded; the process was paused for 400 µs\n");
	pid = START(place, "detach", own_pid(), "--json");
	wait_ticket(place->server);
	server_act(place->server, detached);
	assert_int_equal(finish(place, pid), 0);
	expect_said(place->said, "\"stopped_ns\":400000,\"records\":12,\"lost\":3,"
				 "\"unloaded\":false,\"notes\":[]}\n");
}

static void test_what_is_no_process_is_a_wrong_command_line(void **state)
{
	struct place *place = *state;

	assert_int_equal(WEXITSTATUS(RUN(place, "attach", "train.py")), EXIT_USAGE);
	assert_int_equal(WEXITSTATUS(RUN(place, "attach", "0")), EXIT_USAGE);
	assert_int_equal(WEXITSTATUS(RUN(place, "attach")), EXIT_USAGE);
	assert_int_equal(WEXITSTATUS(RUN(place, "attach", "1", "2")), EXIT_USAGE);
	assert_int_equal(WEXITSTATUS(RUN(place, "detach", "-1")), EXIT_USAGE);
	assert_int_equal(WEXITSTATUS(RUN(place, "run")), EXIT_USAGE);
	assert_int_equal(WEXITSTATUS(RUN(place, "attach", "99999999")), EXIT_FAILED);
}

/* Puts an empty file where the library is looked for. */
static void put_library(const struct place *place, const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", place->server->store->directory, name);
	close(open(path, O_CREAT | O_WRONLY, 0644));
}

static void listen_for_libraries(const struct place *place)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s/inject.sock",
		 place->server->store->directory);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 8), 0);
	/* Open until the program ends. */
}

static void test_run_becomes_the_program(void **state)
{
	struct place *place = *state;
	char expected[512];
	pid_t pid;
	int status;

	put_library(place, "lib/tracesmith/" TS_INJECT_LIBRARY);
	listen_for_libraries(place);
	status = RUN(place, "run", "--stacks", "all", "--records", "kernels", "--budget", "1%",
		     "--light", "sh", "-c",
		     "echo $CUDA_INJECTION64_PATH $NVTX_INJECTION64_PATH; "
		     "echo $TRACESMITH_INJECT_SOCKET; "
		     "echo $TRACESMITH_RECORDS $TRACESMITH_STACKS $TRACESMITH_BUDGET "
		     "$TRACESMITH_LIGHT $1; exit 7",
		     "--json", "--json");
	snprintf(expected, sizeof(expected),
		 "%s/lib/tracesmith/" TS_INJECT_LIBRARY "\n%s/inject.sock\n1 3 10000 1 --json\n",
		 place->server->store->directory, place->server->store->directory);
	assert_string_equal(place->said, expected);
	assert_string_equal(place->complained, "");
	assert_int_equal(WEXITSTATUS(status), 7);
	/* It is the same process, with the signals that were ignored. */
	signal(SIGPIPE, SIG_IGN);
	pid = START(place, "run", "--", "sh", "-c", "echo $$; trap; kill -PIPE $$; kill -TERM $$");
	signal(SIGPIPE, SIG_DFL);
	status = finish(place, pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
	assert_int_equal(atoi(place->said), pid);
}

static void test_run_takes_the_library_beside_it_first(void **state)
{
	struct place *place = *state;

	put_library(place, "lib/tracesmith/" TS_INJECT_LIBRARY);
	put_library(place, "bin/" TS_INJECT_LIBRARY);
	assert_int_equal(
		RUN(place, "run", "printenv", "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"), 0);
	expect_said(place->said, "/bin/" TS_INJECT_LIBRARY "\n");
	expect_said(strchr(place->said, '\n'), "/bin/" TS_INJECT_LIBRARY "\n");
}

static void test_run_without_a_daemon_warns_and_runs(void **state)
{
	struct place *place = *state;

	put_library(place, "bin/" TS_INJECT_LIBRARY);
	assert_int_equal(RUN(place, "run", "echo", "done"), 0);
	assert_string_equal(place->said, "done\n");
	expect_said(place->complained, "tsctl: No daemon listens on /");
	assert_ptr_equal(strchr(place->complained, '\n') + 1, strchr(place->complained, '\0'));
}

static void test_run_stands_aside_for_another_profiler(void **state)
{
	struct place *place = *state;

	put_library(place, "bin/" TS_INJECT_LIBRARY);
	setenv("CUDA_INJECTION64_PATH", "/opt/nsys.so", 1);
	assert_int_equal(WEXITSTATUS(RUN(place, "run", "echo", "done")), EXIT_FAILED);
	unsetenv("CUDA_INJECTION64_PATH");
	assert_string_equal(place->said, "");
	expect_said(place->complained, "'/opt/nsys.so'");
	setenv("NVTX_INJECTION64_PATH", "/opt/nvtx.so", 1);
	assert_int_equal(RUN(place, "run", "printenv", "NVTX_INJECTION64_PATH"), 0);
	assert_string_equal(place->said, "/opt/nvtx.so\n");
	expect_said(place->complained, "NVTX ranges are not recorded");
	assert_int_equal(RUN(place, "run", "--records", "kernels", "true"), 0);
	assert_null(strstr(place->complained, "NVTX"));
	unsetenv("NVTX_INJECTION64_PATH");
}

static void test_run_fails_as_env_does(void **state)
{
	struct place *place = *state;

	put_library(place, "bin/" TS_INJECT_LIBRARY);
	assert_int_equal(WEXITSTATUS(RUN(place, "run", "no-such-program")), 127);
	assert_int_equal(WEXITSTATUS(RUN(place, "run", "/etc/passwd")), 126);
	expect_said(place->complained, "Cannot run '/etc/passwd'");
}

#define AT_PLACE(test) cmocka_unit_test_setup_teardown(test, place_setup, place_teardown)

/* As tsctl's own main does it. */
static int be_tsctl(int argc, char **argv)
{
	struct options options = { .socket = argv[2], .files = &file_serve };
	const struct command *command = command_find(argv[3]);
	const bool foreign = command->arguments_max == ARGUMENTS_FOREIGN;
	int first = options_parse(&options, command->options, command->name, foreign, argc - 3,
				  argv + 3);
	int count = argc - 3 - first;

	if (first < 0 || count < command->arguments_min || count > command->arguments_max)
		return EXIT_USAGE;
	return command->run(&options, count, argv + 3 + first);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		AT_PLACE(test_attach_tells_what_was_done),
		AT_PLACE(test_attach_as_an_object),
		AT_PLACE(test_attach_waits_for_cuda_only_if_asked_to),
		AT_PLACE(test_waiting_ends_with_the_process_or_the_time),
		AT_PLACE(test_detach_tells_what_was_done),
		AT_PLACE(test_what_is_no_process_is_a_wrong_command_line),
		AT_PLACE(test_run_becomes_the_program),
		AT_PLACE(test_run_takes_the_library_beside_it_first),
		AT_PLACE(test_run_without_a_daemon_warns_and_runs),
		AT_PLACE(test_run_stands_aside_for_another_profiler),
		AT_PLACE(test_run_fails_as_env_does),
	};

	if (argc > 3)
		return be_tsctl(argc, argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
