/* link_fixture.h: the library as a program loads it, and how the test sees it come and go. */
#ifndef LINK_FIXTURE_H
#define LINK_FIXTURE_H

#include <dirent.h>
#include <dlfcn.h>

#include "proto/paths.h"
#include "tests/unit/inject_double.h"
#include "tests/unit/inject_fixture.h"

/* The library as loaded. */
struct loaded {
	void *handle;
	int (*initialize)(void);
	int (*attach)(struct ts_attach *attach);
	struct inject_double its;
};

static inline struct loaded load(void)
{
	struct loaded loaded = { .handle = dlopen(INJECT_DOUBLE, RTLD_NOW | RTLD_LOCAL) };
	const struct inject_double *(*its)(void);

	if (!loaded.handle)
		fail_msg("%s", dlerror());
	loaded.initialize = (int (*)(void))dlsym(loaded.handle, TS_INJECT_ENTRY);
	loaded.attach = (int (*)(struct ts_attach *))dlsym(loaded.handle, TS_INJECT_ATTACH_ENTRY);
	its = (const struct inject_double *(*)(void))dlsym(loaded.handle, "inject_double");
	assert_true(loaded.initialize && loaded.attach && its);
	loaded.its = *its();
	return loaded;
}

static inline uint32_t now(const uint32_t *count)
{
	return __atomic_load_n(count, __ATOMIC_SEQ_CST);
}

static inline int count_entries(const char *path)
{
	DIR *directory = opendir(path);
	int count = 0;

	while (readdir(directory))
		count++;
	closedir(directory);
	return count;
}

/* Reads a file of the first thread that is ours; false: there is none. */
static inline bool our_thread(const char *file, char *text, size_t size)
{
	DIR *directory = opendir("/proc/self/task");
	struct dirent *entry;
	bool found = false;

	while (!found && (entry = readdir(directory))) {
		char path[300], name[32] = "";
		FILE *stream;

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
		stream = fopen(path, "r");
		if (!stream)
			continue;
		found = fgets(name, sizeof(name), stream) && strcmp(name, THREAD_NAME "\n") == 0;
		fclose(stream);
		snprintf(path, sizeof(path), "/proc/self/task/%s/%s", entry->d_name, file);
		stream = found ? fopen(path, "r") : NULL;
		if (stream) {
			text[fread(text, 1, size - 1, stream)] = '\0';
			fclose(stream);
		}
	}
	closedir(directory);
	return found;
}

static inline bool has_thread(void)
{
	char name[32];

	return our_thread("comm", name, sizeof(name));
}

static inline void attach(struct server *server, const struct loaded *loaded)
{
	struct ts_attach how = { .size = sizeof(how), .wanted.records = 5 };
	uint64_t before = server->states;
	int pair[2], r;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(inject_adopt(server->inject, pair[0], (uint32_t)getpid()), 0);
	how.socket = pair[1];
	/* Its ring goes a moment before it knows that it has no connection. */
	server_wait(server, (r = loaded->attach(&how)) != -EALREADY);
	assert_int_equal(r, 0);
	server_wait(server, server->states == before + 1);
	assert_int_equal(server->state.state, TS_LIBRARY_COLLECTING);
}

static inline void detach(struct server *server)
{
	uint64_t before = server->gone;

	assert_int_equal(inject_detach(server->inject, (uint32_t)getpid()), 0);
	server_wait(server, server->gone == before + 1);
	assert_int_equal(server->state.state, TS_LIBRARY_GONE);
	server_wait(server, !has_thread());
}

static inline int put(const struct loaded *loaded, uint64_t number)
{
	const struct ts_event event = { .kind = TS_EVENT_KERNEL, .start_ns = number };
	int r = loaded->its.put(&event, sizeof(event));

	loaded->its.wake();
	return r;
}

static inline void initialize(struct server *server, const struct loaded *loaded)
{
	uint64_t before = server->states;

	setenv(TS_ENV_INJECT_SOCKET, server->path, 1);
	assert_int_equal(loaded->initialize(), 1);
	server_wait(server, server->states == before + 1);
}

static inline void unload(struct loaded *loaded)
{
	assert_int_equal(dlclose(loaded->handle), 0);
	assert_null(dlopen(INJECT_DOUBLE, RTLD_NOW | RTLD_NOLOAD));
}

static inline long count_mappings(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	long lines = 0;
	int c;

	while ((c = fgetc(maps)) != EOF)
		lines += c == '\n';
	fclose(maps);
	return lines;
}

#endif
