/* fuzz_task: what a helper says that attaches to a process, or leads its functions to the library,
 * to the sessions of the exact tier, in any order with what else happens to them. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "core/base/log.h"
#include "daemon/exact/internal.h"
#include "tests/fuzz/seed.h"

#define TASKS	4
#define TICKETS 64

enum {
	ATTACH,
	DETACH,
	TIDY,
	LIGHTEN,
	HELLO,
	TOLD,
	STATE,
	GONE,
	SAY,
	SCRIBBLE,
	DONE,
	LINK,
	LINKED,
	FLOODED,
	INSIDE,
	ACTIONS
};

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The helpers, the linker, the libraries and the broker are this fuzzer. */
struct helpers {
	struct helper_task *task[TASKS];
	int span[TASKS];
};

static uv_loop_t loop;
static int file;
static struct helpers helpers;
static struct list linkings, linked; /* to be run, to be told */
static struct exact *exact;
static struct inject_callbacks library;
static void *library_data;
static bool connected;
static uint32_t stubs, tickets;
static char ticket[TICKETS]; /* of each: 1: waits for its answer */

static void must(bool holds)
{
	if (!holds)
		abort();
}

/* What the exact tier calls. */

int helpers_ask(struct helpers *to, struct helper_task *task, const void *request, size_t size,
		const int *fd, uint32_t fds)
{
	for (size_t i = 0; i < TASKS; i++) {
		if (to->task[i])
			continue;
		to->task[i] = task;
		to->span[i] = fds ? fcntl(fd[0], F_DUPFD_CLOEXEC, 3) : -1;
		task->share = (struct helper_share *)to;
		return 0;
	}
	return -EBUSY;
}

static struct helper_task *forget(size_t i)
{
	struct helper_task *task = TAKE(helpers.task[i]);

	closep(&helpers.span[i]);
	task->share = NULL;
	return task;
}

void helpers_cancel(struct helpers *to, struct helper_task *task)
{
	for (size_t i = 0; i < TASKS; i++)
		if (to->task[i] == task)
			forget(i);
}

int helper_say(int socket, const void *data, size_t size, const int *fd, uint32_t fds)
{
	abort();
}

static bool is_in(const struct list *list, const struct linking *linking)
{
	const struct linking *other;

	list_for_each(other, list, link)
		if (other == linking)
			return true;
	return false;
}

int linker_add(struct linker *linker, struct linking *linking, void (*run)(struct linking *linking),
	       void (*done)(struct linking *linking))
{
	must(!is_in(&linkings, linking) && !is_in(&linked, linking));
	linking->run = run;
	linking->done = done;
	list_append(&linkings, &linking->link);
	return 0;
}

int probe_stub_new(struct probe *probe, int fd, uint64_t offset, uint32_t pid,
		   struct probe_stub **ret)
{
	must(fd >= 0 && pid == (uint32_t)getpid());
	if (offset % 2)
		return -EINVAL;
	*ret = malloc(1);
	must(*ret);
	stubs++;
	return 0;
}

struct probe_stub *probe_stub_end(struct probe_stub *stub, struct remover *remover)
{
	stubs -= stub != NULL;
	free(stub);
	return NULL;
}

uint64_t probe_sample_ns(const struct probe *probe)
{
	return 1000;
}

int inject_walk(struct inject *inject, uint32_t pid, int fd)
{
	return 0;
}

bool probe_renew_stacks(struct probe *probe, uint32_t pid)
{
	return true;
}

bool probe_seeds(const struct probe *probe, uint32_t pid, struct probe_seeds *ret)
{
	return false;
}

bool probe_rule(const struct probe *probe, const struct probe_seeds *seeds, uint64_t address,
		struct rule *ret)
{
	return false;
}

bool probe_python(const struct probe *probe, uint32_t pid, struct ts_python *ret)
{
	return false;
}

void probe_walks(const struct probe *probe, struct probe_walks *ret)
{
	*ret = (struct probe_walks){ .by_rules = true, .depth = TS_STACK_FRAMES_MAX };
}

int probe_choose_stacks(struct probe *probe, uint32_t pid, enum probe_choice choice)
{
	return 0;
}

int inject_new(uv_loop_t *on, struct intake *intake, const struct inject_config *config,
	       const struct inject_callbacks *callbacks, void *data, struct inject **ret)
{
	library = *callbacks;
	library_data = data;
	*ret = (struct inject *)&library;
	return 0;
}

static void disconnect(void)
{
	if (!connected)
		return;
	connected = false;
	library.gone(library_data, (uint32_t)getpid());
}

void inject_close(struct inject *inject, void (*closed)(void *data))
{
	disconnect();
	closed(library_data);
}

int inject_adopt(struct inject *inject, int fd, uint32_t pid)
{
	if (fd < 0)
		return -EBADF;
	close(fd);
	return 0;
}

int inject_settings(struct inject *inject, uint32_t pid, const struct ts_settings *settings)
{
	return connected ? 0 : -ENOENT;
}

int inject_window(struct inject *inject, uint32_t pid, enum ts_window_how how, uint64_t at_ns)
{
	return connected ? 0 : -ENOENT;
}

int inject_modules(struct inject *inject, uint32_t pid)
{
	return 0;
}

int inject_watched(struct inject *inject, uint32_t pid)
{
	return connected ? 0 : -ENOENT;
}

int inject_stacks(struct inject *inject, uint32_t pid, uint32_t stacks, uint64_t sample_ns)
{
	return connected ? 0 : -ENOENT;
}

int inject_detach(struct inject *inject, uint32_t pid)
{
	return connected ? 0 : -ENOENT;
}

void inject_stats(const struct inject *inject, struct inject_stats *ret)
{
	*ret = (struct inject_stats){ 0 };
}

static void answered(struct api_ticket *given)
{
	char *of = (char *)given;

	must(of >= ticket && of < ticket + TICKETS && *of);
	*of = 0;
}

void api_attach_done(struct api_ticket *given, const struct api_attach_result *result)
{
	must(result->note_count <= 1);
	answered(given);
}

void api_detach_done(struct api_ticket *given, const struct api_detach_result *result)
{
	must(result->note_count <= 1);
	answered(given);
}

void api_ticket_fail(struct api_ticket *given, Tracesmith__V1__Remark__Reason reason, ...)
{
	answered(given);
}

void api_ticket_fail_for(struct api_ticket *given, const struct remarks *why)
{
	for (size_t i = 0; i < why->count; i++)
		must(remark_code(why->item[i]->reason) >= 0 && why->item[i]->text);
	answered(given);
}

const struct core_process *core_process_by_pid(const struct core *core, uint32_t pid)
{
	static const struct core_process process = { .id = 1 };

	return &process;
}

uint32_t core_collect_cycles(const struct core *core, uint32_t pid)
{
	return 0;
}

int core_ingest(struct core *core, const struct core_origin *origin, const void *record,
		size_t size)
{
	return 0;
}

void core_collect_gone(struct core *core, uint32_t pid, uint64_t time_ns)
{
}

void core_lose(struct core *core, const struct core_loss *loss)
{
}

int light_put(const struct light_request *request, struct light_result *ret, struct remarks *why)
{
	abort();
}

int light_take(const struct light_request *request, struct light_result *ret, struct remarks *why)
{
	abort();
}

int light_stub_open(const struct light_request *request, int *ret_fd, uint64_t *ret_offset)
{
	abort();
}

static void on_stir(void *data)
{
}

static void on_recording(void *data, uint32_t pid, bool on, uint64_t since_ns)
{
}

static void on_light(void *data, uint32_t pid, bool light)
{
}

static enum hot_state hot(void *data, uint32_t pid)
{
	return HOT_IS_OPEN;
}

/* Now and then, as probes come and go. */
static bool is_watched(void *data, uint32_t pid)
{
	static unsigned int asked;

	return asked++ % 3 == 0;
}

static void on_unseen(void *data, uint32_t pid, bool open, uint64_t time_ns)
{
	static bool unseen;

	must(unseen != open);
	unseen = open;
}

static void on_priced(void *data, const struct ts_event *event)
{
}

/* What happens. Each takes its bytes off the input. */

struct input {
	const uint8_t *at;
	size_t left;
};

static uint8_t next(struct input *input)
{
	if (!input->left)
		return 0;
	input->left--;
	return *input->at++;
}

/* The rest of `to` is as it was. */
static void next_bytes(struct input *input, void *to, size_t size)
{
	if (size > input->left)
		size = input->left;
	memcpy(to, input->at, size);
	input->at += size;
	input->left -= size;
}

static struct api_ticket *new_ticket(void)
{
	if (tickets == TICKETS)
		return NULL;
	ticket[tickets] = 1;
	return (struct api_ticket *)&ticket[tickets++];
}

static void ask(uint8_t action)
{
	struct api_ticket *given = new_ticket();
	struct api_attach request = { .target = { .pid = (uint32_t)getpid() } };

	if (given && action == ATTACH)
		exact_attach(exact, given, &request);
	else if (given)
		exact_detach(exact, given, &request.target);
}

static void hello(struct input *input)
{
	struct ts_hello said = { .how = next(input),
				 .wanted = { .light = next(input), .stacks = next(input) } };
	struct ts_settings settings;
	char why[TS_HELLO_TEXT];

	if (!connected)
		connected = library.hello(library_data, (uint32_t)getpid(), 0, &said, &settings,
					  why) == 0;
}

static void told(struct input *input)
{
	struct ts_light said = { .region = next(input), .in_place = next(input), .text = "no" };

	if (connected)
		library.light(library_data, (uint32_t)getpid(), &said);
}

static void state(struct input *input)
{
	struct ts_state said = { .state = next(input), .unloadable = next(input) };

	if (connected)
		library.state(library_data, (uint32_t)getpid(), &said);
}

/* The message starts with bytes of the input, and its text has no end. */
static void say(struct input *input)
{
	size_t i = next(input) % TASKS, given = next(input);
	struct task_said said;
	int fd = next(input) % 2 ? fcntl(file, F_DUPFD_CLOEXEC, 3) : -1;

	memset(&said, 0, sizeof(said));
	memset(said.text, 'x', sizeof(said.text));
	next_bytes(input, &said, given < sizeof(said) ? given : sizeof(said));
	if (helpers.task[i])
		helpers.task[i]->message(helpers.task[i], &said, sizeof(said), &fd, fd >= 0);
	closep(&fd);
}

/* It shares this memory. */
static void scribble(struct input *input)
{
	size_t i = next(input) % TASKS;
	struct light_span *span;

	if (!helpers.task[i] || helpers.span[i] < 0)
		return;
	span = span_map(helpers.span[i]);
	if (!span)
		return;
	next_bytes(input, span, sizeof(*span));
	munmap(span, sizeof(*span));
}

static void done(struct input *input)
{
	static const int results[] = { 0, -EPIPE, -ETIMEDOUT, -EBUSY, -EBADMSG };
	size_t i = next(input) % TASKS;
	int result = results[next(input) % ARRAY_SIZE(results)];
	struct helper_task *task = helpers.task[i] ? forget(i) : NULL;

	if (task)
		task->done(task, result);
}

static void link_next(bool run)
{
	struct list *from = run ? &linkings : &linked;
	struct linking *linking = list_first(from, struct linking, link);

	if (!linking)
		return;
	list_remove(&linking->link);
	if (run) {
		linking->run(linking);
		list_append(&linked, &linking->link);
	} else {
		linking->done(linking);
	}
}

static void act(uint8_t action, struct input *input)
{
	switch (action) {
	case ATTACH:
	case DETACH:
		return ask(action);
	case TIDY:
		return exact_tidy(exact, (uint32_t)getpid());
	case LIGHTEN:
		return exact_lighten(exact, (uint32_t)getpid(), 0, 0);
	case HELLO:
		return hello(input);
	case TOLD:
		return told(input);
	case STATE:
		return state(input);
	case GONE:
		return disconnect();
	case SAY:
		return say(input);
	case SCRIBBLE:
		return scribble(input);
	case DONE:
		return done(input);
	case LINK:
	case LINKED:
		return link_next(action == LINK);
	case FLOODED:
		(void)exact_flooded(exact, (uint32_t)getpid(), next(input) % 2);
		return;
	case INSIDE:
		return exact_set_inside(exact, next(input) % 2, false);
	}
}

/* Whatever it was told, it ends: with an answer for each who asked, and without anything left. */
static void end(void)
{
	exact_close(exact, NULL);
	while (!list_empty(&linkings) || !list_empty(&linked)) {
		link_next(true);
		link_next(false);
	}
	for (size_t i = 0; i < TASKS; i++)
		must(!helpers.task[i]);
	uv_run(&loop, UV_RUN_DEFAULT);
	must(stubs == 0);
	must(!memchr(ticket, 1, sizeof(ticket)));
}

static void seed_attach(const char *directory)
{
	struct task_said said = { .result = { .handle = 7, .stopped_ns = 8 } };
	uint8_t seed[256] = { SAY, 0, sizeof(said) - TASK_TEXT_MAX, 1 };
	static const uint8_t more[] = { DONE, 0, 0, HELLO, 1, 0, 1, STATE, 1, 0, DETACH, GONE };

	memcpy(seed + 4, &said, sizeof(said) - TASK_TEXT_MAX);
	memcpy(seed + 4 + sizeof(said) - TASK_TEXT_MAX, more, sizeof(more));
	write_seed(directory, 0, ATTACH, seed, 4 + sizeof(said) - TASK_TEXT_MAX + sizeof(more));
}

static void seed_light(const char *directory)
{
	static const uint8_t seed[] = {
		DONE, 0,    0, HELLO, 2,     TS_LIGHT_ALONE, TS_STACKS_ALL, TOLD, 1, 0,
		SAY,  0,    1, 1,     1,     LINK,	     LINKED,	    SAY,  0, 0,
		0,    DONE, 0, 0,     DETACH
	};

	write_seed(directory, 1, LIGHTEN, seed, sizeof(seed));
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	const char *directory = getenv("TS_FUZZ_SEEDS");

	log_set_level(LOG_LEVEL_ERROR);
	must(uv_loop_init(&loop) == 0);
	must((file = memfd_create("fuzz", MFD_CLOEXEC)) >= 0);
	list_init(&linkings);
	list_init(&linked);
	if (directory) {
		seed_attach(directory);
		seed_light(directory);
	}
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct exact_config config = { .fd = -1, .inside = true };
	const struct exact_parts parts = { .helpers = &helpers,
					   .stir = on_stir,
					   .recording = on_recording,
					   .light = on_light,
					   .hot = hot,
					   .watched = is_watched,
					   .unseen = on_unseen,
					   .priced = on_priced };
	struct input input = { data, size };

	tickets = 0;
	connected = false;
	must(exact_new(&loop, &config, &parts, &exact) == 0);
	while (input.left) {
		act(next(&input) % ACTIONS, &input);
		uv_run(&loop, UV_RUN_NOWAIT);
	}
	end();
	return 0;
}
