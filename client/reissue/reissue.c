/* Reissue: issues the commands of a recording again, on a GPU. To measure the result, the reissue
 * is recorded like any other program: tsctl runs itself under tsctl record. */
#include "client/reissue/reissue.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/base/complain.h"
#include "client/reissue/world.h"
#include "core/base/time.h"
#include "core/base/units.h"

#define SELF	  "/proc/self/exe"
#define WORDS_MAX 32
#define TEXT_MAX  32
#define LONG_NS	  (10 * NS_PER_S)
#define RECORDED  "TRACESMITH_REPLAY_RECORDED" /* tells the reissue that it is recorded */

struct line {
	const char *word[WORDS_MAX];
	size_t count;
	char text[8][TEXT_MAX];
	size_t texts;
};

static void add(struct line *line, const char *word)
{
	line->word[line->count++] = word;
}

static void add_number(struct line *line, const char *option, uint64_t number, const char *unit)
{
	char *text = line->text[line->texts++];

	snprintf(text, TEXT_MAX, "%" PRIu64 "%s", number, unit);
	add(line, option);
	add(line, text);
}

/* tsctl record -o OUTPUT -- tsctl replay --on-gpu FILE, with the options of the selected part. */
static void compose(const struct options *options, struct line *line)
{
	add(line, "tsctl");
	add(line, "record");
	add(line, "--socket");
	add(line, options->socket);
	add(line, "--output");
	add(line, options->output);
	add(line, "--");
	add(line, SELF);
	add(line, "replay");
	add(line, "--on-gpu");
	if (options->given & OPTION(FROM))
		add_number(line, "--from", options->from_ns, "ns");
	if (options->given & OPTION(TO))
		add_number(line, "--to", options->to_ns, "ns");
	if (options->given & OPTION(PID))
		add_number(line, "--pid", options->pid, "");
	if (options->given & OPTION(STREAM))
		add_number(line, "--stream", options->stream, "");
	if (options->given & OPTION(DEVICE))
		add_number(line, "--device", options->device, "");
	if (options->given & OPTION(KERNEL)) {
		add(line, "--kernel");
		add(line, options->kernel);
	}
	add(line, "--");
	add(line, options->file);
}

static int record(const struct options *options)
{
	struct line line = { 0 };
	char self[4096];
	ssize_t size = readlink(SELF, self, sizeof(self) - 1);
	int status = 0;
	pid_t pid;

	if (size < 0)
		return complain("Cannot find tsctl itself: %s", strerror(errno));
	self[size] = '\0';
	compose(options, &line);
	for (size_t i = 0; i < line.count; i++)
		if (strcmp(line.word[i], SELF) == 0)
			line.word[i] = self;
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		setenv(RECORDED, "1", 1);
		dup2(STDERR_FILENO,
		     STDOUT_FILENO); /* the output of the two is not part of the answer */
		execv(self, (char *const *)line.word);
		_exit(127);
	}
	if (pid < 0)
		return complain("Cannot start tsctl: %s", strerror(errno));
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return complain("Cannot wait for tsctl: %s", strerror(errno));
	return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILED;
}

static void show(const struct options *options, const struct gpu_world *world)
{
	uint64_t recorded_ns = world->plan->end_ns - world->plan->start_ns;
	uint64_t replayed_ns = world->end_ns - world->start_ns, unknown = world->unknown;
	char text[2][UNITS_TEXT_SIZE];

	if (options->given & OPTION(JSON))
		printf("{\"recorded_ns\":%" PRIu64 ",\"replayed_ns\":%" PRIu64 ",\"works\":%" PRIu64
		       ",\"unknown\":%" PRIu64 "}\n",
		       recorded_ns, replayed_ns, (uint64_t)world->works, unknown);
	else
		printf("%" PRIu64 " operations; from the first call to the last operation: %s "
		       "recorded, %s reissued.%s\n",
		       (uint64_t)world->works, units_nanoseconds(text[0], (int64_t)recorded_ns),
		       units_nanoseconds(text[1], (int64_t)replayed_ns),
		       getenv(RECORDED) ? "" : " Use -o FILE to record and compare it.");
	if (unknown > 0)
		complain("%" PRIu64 " calls submitted work in a way that cannot be reissued",
			 unknown);
	if (world->plan->untimed > 0)
		complain("%" PRIu64 " operations have no exact times: their kernels take no time. "
			 "Record with 'tsctl record -- PROGRAM'",
			 world->plan->untimed);
	if (world->plan->no_call > 0)
		complain("%" PRIu64
			 " operations are left out: the calls that submitted them are unknown",
			 world->plan->no_call);
}

/* Whoever waits for it should know for how long. */
static void say_length(const struct plan *plan)
{
	uint64_t ns = plan->end_ns - plan->start_ns;
	char text[UNITS_TEXT_SIZE];

	if (ns > LONG_NS)
		complain("This takes %s, as long as recorded: select a part with --from and --to",
			 units_nanoseconds(text, ns > INT64_MAX ? INT64_MAX : (int64_t)ns));
}

/* Checks first, so that a recording that cannot be reissued does not overwrite a file. */
static int look(const struct options *options)
{
	_cleanup_(gpu_world_done) struct gpu_world world = { 0 };

	return gpu_world_load(options, &world);
}

int replay_on_gpu(const struct options *options)
{
	_cleanup_(gpu_world_done) struct gpu_world world = { 0 };
	int status;

	if (options->output) {
		if (!options->file) {
			complain("Missing recording: tsctl replay --on-gpu F.sbt -o REPLAY.sbt");
			return EXIT_USAGE;
		}
		if (options->given & OPTIONS_WINDOW) {
			complain("With -o, select the part with --from and --to");
			return EXIT_USAGE;
		}
		if (look(options) < 0)
			return EXIT_FAILED;
		status = record(options);
		return status == EXIT_DONE ? gpu_compare(options, options->output) : status;
	}
	if (gpu_world_load(options, &world) < 0 || gpu_world_make(&world) < 0)
		return EXIT_FAILED;
	say_length(world.plan);
	if (gpu_run(&world) < 0)
		return EXIT_FAILED;
	show(options, &world);
	return EXIT_DONE;
}
