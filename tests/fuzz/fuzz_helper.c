/* fuzz_helper: what a helper says to the loop, which it may have been made to say: what a process
 * maps, with files; where its Python is; the names of frames; how /proc describes it. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "core/base/log.h"
#include "daemon/helper/helper.h"
#include "daemon/library/library.h"
#include "daemon/maps/look.h"
#include "daemon/maps/maps.h"
#include "daemon/proc/procfs.h"
#include "daemon/python/pythons.h"
#include "daemon/python/pythons_helper.h"
#include "tests/fuzz/seed.h"

#define FILES	 2 /* that come with each message */
#define FRAMES	 3
#define MAPPINGS 32

enum { MAPS, PLACE, NAMES, DESCRIPTION };

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The helpers are this fuzzer. */
struct helpers {
	struct helper_task *task;
};

static struct helpers helpers;
static uv_loop_t loop;
static int file[FILES];

static void must(bool holds)
{
	if (!holds)
		abort();
}

int helpers_ask(struct helpers *to, struct helper_task *task, const void *request, size_t size,
		const int *fd, uint32_t fds)
{
	must(!to->task);
	to->task = task;
	return 0;
}

void helpers_cancel(struct helpers *to, struct helper_task *task)
{
	if (to->task == task)
		to->task = NULL;
}

/* One message, of a size that its first two bytes say, with files; what is left of the input. */
static size_t say_one(const uint8_t **data, size_t left)
{
	_Alignas(8) static uint8_t message[HELPER_MESSAGE];
	size_t size = (*data)[0] | (size_t)(*data)[1] << 8;
	int fd[FILES];

	left -= 2;
	size = size < left ? size : left;
	size = size < sizeof(message) ? size : sizeof(message);
	/* Behind a message is what no sanitizer knows: the end of another one. */
	memcpy(message + sizeof(message) - size, *data + 2, size);
	memmove(message, message + sizeof(message) - size, size);
	memset(message + size, 'x', sizeof(message) - size);
	for (size_t i = 0; i < FILES; i++)
		fd[i] = fcntl(file[i], F_DUPFD_CLOEXEC, 3);
	helpers.task->message(helpers.task, message, size, fd, FILES);
	for (size_t i = 0; i < FILES; i++)
		closep(&fd[i]);
	*data += 2 + size;
	return left - size;
}

/* All of it, and then that this was it, as often as something is asked. */
static void say(const uint8_t *data, size_t size)
{
	while (helpers.task && size > 2)
		size = say_one(&data, size);
	while (helpers.task) {
		struct helper_task *task = TAKE(helpers.task);

		task->done(task, size ? -data[0] : 0);
	}
}

static void on_library(void *data, struct maps_file *library, uint32_t pid)
{
	must(library->fd >= 0 && library_matches(library->path, "libcuda.so*"));
}

static void on_library_gone(void *data, struct maps_file *library)
{
}

static void on_gone(void *data, uint32_t pid, uint64_t time_ns)
{
}

static void on_memory(void *data, uint32_t pid, uint64_t start)
{
	must(pid == (uint32_t)getpid());
}

static void check_spans(struct maps *maps, uint32_t pid)
{
	struct maps_span *span;
	uint32_t count;
	uint64_t end = 0;

	if (maps_spans(maps, pid, UINT64_MAX, &span, &count) < 0)
		return;
	must(count <= MAPPINGS);
	for (uint32_t i = 0; i < count; i++) {
		must(span[i].start >= end && span[i].end > span[i].start);
		must(strlen(span[i].file->path) < MAPS_LOOK_PATH);
		end = span[i].end;
		maps_file_unref(span[i].file);
	}
	free(span);
}

static void map(const uint8_t *data, size_t size)
{
	static const struct maps_callbacks callbacks = {
		.library_found = on_library,
		.library_gone = on_library_gone,
		.process_gone = on_gone,
		.memory = on_memory,
	};
	const struct maps_config config = { .patterns = "libcuda.so*",
					    .ring_bytes = 1, /* so there are no rings */
					    .max_processes = 2,
					    .max_mappings = MAPPINGS,
					    .max_files = 2,
					    .helpers = &helpers };
	const uint32_t pid = (uint32_t)getpid();
	struct maps *maps;

	must(maps_new(&loop, &config, &callbacks, NULL, &maps) == 0);
	if (maps_follow(maps, pid) == 0) {
		say(data, size);
		check_spans(maps, pid);
	}
	maps_close(maps, NULL);
	uv_run(&loop, UV_RUN_DEFAULT);
}

static void on_place(void *data, struct pythons_found *found)
{
	must(found->pid == (uint32_t)getpid() && !found->place.freed);
}

static void on_names(void *data, void *stack, const struct ts_python_frame *frame,
		     struct pythons_name *name, uint32_t count)
{
	must(stack == &helpers && count == FRAMES);
	for (uint32_t i = 0; i < count; i++) {
		must(!name[i].function || !name[i].hidden);
		must(!name[i].file == !name[i].function);
		if (name[i].function)
			must(strlen(name[i].function) + strlen(name[i].file) < HELPER_MESSAGE);
		free(TAKE(name[i].function));
		free(TAKE(name[i].file));
	}
}

static void tell_python(bool names, const uint8_t *data, size_t size)
{
	static const struct pythons_callbacks callbacks = { on_place, on_names };
	static const struct ts_python_frame frame[FRAMES];
	const uint32_t pid = (uint32_t)getpid();
	struct pythons *pythons;

	must(pythons_new(&helpers, 0, &callbacks, NULL, &pythons) == 0);
	if (names)
		must(pythons_ask(pythons, pid, 0, frame, FRAMES, &helpers) == 0);
	else
		pythons_look(pythons, pid, uv_hrtime());
	say(data, size);
	pythons_free(pythons);
}

static void describe(const uint8_t *data, size_t size)
{
	struct procfs_process found;

	if (!procfs_take(data, size, &found))
		return;
	must(strlen(found.command) < sizeof(found.command));
	must(strlen(found.cgroup) < sizeof(found.cgroup));
	must(strlen(found.container) < sizeof(found.container));
	must(strlen(found.variables) < sizeof(found.variables));
}

static void seed_mappings(const char *directory)
{
	_Alignas(8) char message[2 + 1024] = { 0 };
	const struct maps_record records[] = {
		{ .start = 0x1000, .end = 0x3000, .inode = 7, .path = "/lib/libcuda.so.1" },
		{ .start = 0x2000, .end = 0x5000, .offset = 0x1000, .inode = 8, .path = "/bin/x" },
		{ .start = 0x9000, .end = 0xa000, .path = "" },
	};
	_Alignas(8) char put[1024];
	size_t size = 0, at = 0;
	int32_t fd = 0;

	for (size_t i = 0; i < ARRAY_SIZE(records); i++) {
		size_t begin = size;
		struct maps_looked *looked = (struct maps_looked *)(void *)(put + begin);

		must(maps_looked_put(put, &size, sizeof(put), &records[i]) == 0);
		looked->file = records[i].inode != 0;
		looked->fd = looked->file ? fd++ : -1;
		looked->identity.inode = records[i].inode;
	}
	message[at++] = (char)(size & 255);
	message[at++] = (char)(size >> 8);
	memcpy(message + at, put, size);
	write_seed(directory, MAPS, MAPS, message, at + size);
}

static void seed_names(const char *directory)
{
	static const char text[] = "train\0/src/train.py";
	struct pythons_row row = { .index = 1, .line = 12 };
	char message[2 + sizeof(row) + sizeof(text)] = { sizeof(row) + sizeof(text) };

	memcpy(message + 2, &row, sizeof(row));
	memcpy(message + 2 + sizeof(row), text, sizeof(text));
	write_seed(directory, NAMES, NAMES, message, sizeof(message));
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct procfs_process described;
	char place[2 + sizeof(struct ts_python)] = { sizeof(struct ts_python) };
	const char *directory = getenv("TS_FUZZ_SEEDS");

	log_set_level(LOG_LEVEL_ERROR);
	must(uv_loop_init(&loop) == 0);
	for (size_t i = 0; i < FILES; i++)
		must((file[i] = memfd_create("fuzz", MFD_CLOEXEC)) >= 0);
	if (!directory)
		return 0;
	seed_mappings(directory);
	seed_names(directory);
	write_seed(directory, PLACE, PLACE, place, sizeof(place));
	memset(&described, 'x', sizeof(described)); /* texts without an end */
	write_seed(directory, DESCRIPTION, DESCRIPTION, &described, sizeof(described));
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 2)
		return 0;
	switch (data[0]) {
	case MAPS:
		map(data + 1, size - 1);
		break;
	case PLACE:
	case NAMES:
		tell_python(data[0] == NAMES, data + 1, size - 1);
		break;
	case DESCRIPTION:
		describe(data + 1, size - 1);
		break;
	default:
		break;
	}
	return 0;
}
