/* Broker: what it does when asked. Each of its threads has a channel, and they share nothing but
 * the programs, which are loaded once. */
#include "daemon/broker/broker.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/log.h"
#include "core/store/thread.h"
#include "daemon/broker/event.h"
#include "daemon/broker/link.h"
#include "daemon/broker/object.h"
#include "daemon/broker/rights.h"
#include "daemon/helper/spawn.h"
#include "daemon/library/library.h"
#include "proto/light.h"

#define NAME	     "ts-broker"
#define PATH_SIZE    32
#define PYTHON_FILES "python* libpython*"
#define OWN_PATH     "/proc/self/exe"
#define SAMPLERS_MAX 32	 /* as many helpers read stacks, and some that do not end */
#define KNOWN_MAX    256 /* several times as many as the daemon has copies of libraries */

/* A file that had a library's name. It may lose it: of one that is bound into a container nobody
 * can tell the name any more when the container is gone, and others may have it still. */
struct known {
	dev_t device;
	ino_t inode;
	struct timespec changed; /* another file may get the inode */
};

struct server {
	const struct broker_config *config;
	pthread_mutex_t lock;
	/* Under the lock; the oldest is overwritten: */
	struct known known[KNOWN_MAX];
	uint32_t known_count;
	/* Under the lock until it is loaded, and then the same for ever: */
	bool loaded;
	struct object object;
	struct trial trial;
	uint32_t samplers; /* under the lock */
};

struct channel {
	struct server *server;
	int socket;
	bool samples; /* and nothing else */
	struct broker_message message;
	struct broker_answer answer;
	uint32_t count; /* descriptors to hand over */
	int fd[BROKER_LINKS_MAX];
	uint64_t offset[BROKER_SITES_MAX], cookie[BROKER_SITES_MAX], semaphore[BROKER_SITES_MAX];
};

__attribute__((format(printf, 2, 0))) static int print(enum libbpf_print_level level,
						       const char *format, va_list ap)
{
	char line[1024];
	int n = vsnprintf(line, sizeof(line), format, ap);

	while (n > 0 && n < (int)sizeof(line) && line[n - 1] == '\n')
		line[--n] = '\0';
	/* libbpf warns about every feature that it only tries. */
	log_debug("%s", line);
	return n;
}

static int refuse(const char *why)
{
	static _Thread_local struct log_limit limit;

	if (log_allowed(&limit, 1))
		log_warning("The broker refuses what the daemon asks for: %s", why);
	return -EPERM;
}

static void hand_over(struct channel *channel, int fd)
{
	channel->fd[channel->count++] = fd;
}

static int hand_over_one(struct channel *channel, int fd)
{
	if (fd >= 0)
		hand_over(channel, fd);
	return fd < 0 ? fd : 0;
}

static int do_load(struct channel *channel, int file)
{
	struct server *server = channel->server;
	const struct broker_request *request = &channel->message.request;
	int r = -EALREADY;

	pthread_mutex_lock(&server->lock);
	if (!server->loaded)
		r = object_load((enum probe_way)request->way, request->value, &server->trial,
				&server->config->returns, &server->object);
	server->loaded |= r == 0;
	pthread_mutex_unlock(&server->lock);
	malloc_trim(0);
	if (r < 0)
		return r == -EALREADY ? refuse("the programs a second time") : r;
	channel->answer.programs = server->object.told;
	for (size_t i = 0; i < BROKER_MAPS; i++)
		hand_over(channel, server->object.map[i]);
	return 0;
}

/* NULL: nothing is loaded yet. */
static const struct object *loaded(struct channel *channel)
{
	struct server *server = channel->server;
	bool is_loaded;

	pthread_mutex_lock(&server->lock);
	is_loaded = server->loaded;
	pthread_mutex_unlock(&server->lock);
	return is_loaded ? &server->object : NULL;
}

static bool is_known(const struct server *server, const struct stat *st)
{
	for (uint32_t i = 0; i < KNOWN_MAX && i < server->known_count; i++)
		if (server->known[i].device == st->st_dev && server->known[i].inode == st->st_ino &&
		    server->known[i].changed.tv_sec == st->st_mtim.tv_sec &&
		    server->known[i].changed.tv_nsec == st->st_mtim.tv_nsec)
			return true;
	return false;
}

/* -ESTALE: it has lost it. */
static int read_name(int file, char path[PATH_MAX])
{
	char link[PATH_SIZE];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", file);
	n = readlink(link, path, PATH_MAX - 1);
	if (n < 0)
		return -errno;
	path[n] = '\0';
	return strcmp(path, "/") == 0 ? -ESTALE : 0;
}

/* By its own name, or because the settings name it. */
static int check_name(const struct server *server, int file, const struct stat *st)
{
	char path[PATH_MAX];
	int r = read_name(file, path);

	if (r < 0)
		return r;
	if (library_of(path) ||
	    (server->config->wanted && server->config->wanted(server->config->data, path, st)))
		return 0;
	return refuse("probes on a file that is no driver library");
}

static int check_library(struct channel *channel, int file, const struct stat *st)
{
	struct server *server = channel->server;
	int r = 0;

	pthread_mutex_lock(&server->lock);
	if (!is_known(server, st)) {
		r = check_name(server, file, st);
		if (r == 0)
			server->known[server->known_count++ % KNOWN_MAX] =
				(struct known){ st->st_dev, st->st_ino, st->st_mtim };
	}
	pthread_mutex_unlock(&server->lock);
	return r;
}

static bool group_has(const struct channel *channel, const struct library_function *function)
{
	return library_group(function) == channel->message.request.group;
}

static uint64_t cookie_of(const struct broker_request *request, const struct broker_site *site)
{
	return PROBE_COOKIE(site->function, site->flags) | PROBE_COOKIE_GROUP(request->group) |
	       PROBE_COOKIE_COPY(request->copy) | PROBE_COOKIE_EPOCH(request->value);
}

static bool function_wants(const struct object *object, const struct library_function *function,
			   enum object_program program)
{
	bool note = function->flags & PROBE_NOTE;

	if (program == OBJECT_LEAVE)
		return returns_have(&object->returns, function);
	return note == (program == OBJECT_NOTE);
}

/* The sites of the group, as far as they want this. */
static uint32_t choose_places(struct channel *channel, const struct object *object,
			      enum object_program program)
{
	const struct broker_request *request = &channel->message.request;
	uint32_t count = 0;

	for (uint32_t i = 0; i < request->sites; i++) {
		const struct broker_site *site = &channel->message.site[i];
		const struct library_function *function = library_function(site->function);

		if (!group_has(channel, function) || !function_wants(object, function, program))
			continue;
		channel->offset[count] = site->offset;
		channel->semaphore[count] = site->semaphore;
		channel->cookie[count++] = cookie_of(request, site);
	}
	return count;
}

/* A return without its entry is ignored, an entry without its return would wait: so returns first.
 */
static int make_multi(struct channel *channel, const struct object *object, int file)
{
	static const enum object_program programs[] = { OBJECT_LEAVE, OBJECT_ENTER, OBJECT_NOTE };
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(programs); i++) {
		struct link_places places = {
			.program = object->program[programs[i]],
			.file = file,
			.leave = programs[i] == OBJECT_LEAVE,
			.pid = channel->message.request.pid,
			.count = choose_places(channel, object, programs[i]),
			.offset = channel->offset,
			.cookie = channel->cookie,
			.semaphore = channel->semaphore,
		};

		if (places.count)
			r = hand_over_one(channel, link_multi(&places));
	}
	return r;
}

static int make_event(struct channel *channel, const struct object *object, int file,
		      const struct broker_site *site, enum object_program program)
{
	const uint64_t cookie = cookie_of(&channel->message.request, site);
	const struct link_places places = {
		.program = object->program[program],
		.file = file,
		.leave = program == OBJECT_LEAVE,
		.count = 1,
		.offset = &site->offset,
		.cookie = &cookie,
		.semaphore = &site->semaphore,
	};

	return hand_over_one(channel, link_perf(&places));
}

/* If a site cannot be probed only that function is lost. */
static int make_events(struct channel *channel, const struct object *object, int file)
{
	const struct broker_request *request = &channel->message.request;
	int error = 0;
	bool good = false;

	for (uint32_t i = 0; i < request->sites; i++) {
		const struct broker_site *site = &channel->message.site[i];
		const struct library_function *function = library_function(site->function);
		int r = 0;

		if (!group_has(channel, function))
			continue;
		if (returns_have(&object->returns, function))
			r = make_event(channel, object, file, site, OBJECT_LEAVE);
		if (r == 0)
			r = make_event(channel, object, file, site,
				       function->flags & PROBE_NOTE ? OBJECT_NOTE : OBJECT_ENTER);
		good |= r == 0;
		channel->answer.failed += r < 0;
		error = r < 0 ? r : error;
	}
	return good ? 0 : error;
}

static int do_link(struct channel *channel, int file)
{
	const struct broker_request *request = &channel->message.request;
	const struct object *object = loaded(channel);
	struct stat st;
	int r;

	if (!object)
		return refuse("probes before the programs");
	if (request->pid && !object->told.single)
		return -EOPNOTSUPP;
	if (fstat(file, &st) < 0 || !S_ISREG(st.st_mode))
		return refuse("probes on what is not a regular file");
	r = check_library(channel, file, &st);
	if (r < 0)
		return r;
	if (channel->message.site[request->sites - 1].offset >= (uint64_t)st.st_size)
		return refuse("a probe behind the end of a file");
	return object->told.way == PROBE_WAY_MULTI ? make_multi(channel, object, file)
						   : make_events(channel, object, file);
}

/* One place, with the whole cookie. */
static int make_one(struct channel *channel, const struct object *object,
		    enum object_program program, int file, uint64_t offset, uint64_t cookie)
{
	const struct link_places places = {
		.program = object->program[program],
		.file = file,
		.pid = channel->message.request.pid,
		.count = 1,
		.offset = &offset,
		.cookie = &cookie,
	};

	return hand_over_one(channel, object->told.way == PROBE_WAY_MULTI ? link_multi(&places)
									  : link_perf(&places));
}

static int do_calibrate(struct channel *channel, int file)
{
	const struct object *object = loaded(channel);
	_cleanup_(closep) int own = -1;

	if (!object)
		return refuse("a probe before the programs");
	own = open(OWN_PATH, O_RDONLY | O_CLOEXEC);
	if (own < 0)
		return -errno;
	return make_one(channel, object, OBJECT_ENTER, own, channel->server->config->calibrated,
			PROBE_COOKIE(PROBE_CALIBRATION, 0));
}

/* Whoever maps that file would have it, unless links are to one process. */
static int do_stub(struct channel *channel, int file)
{
	static const uint8_t code[] = TS_LIGHT_STUB;
	const struct object *object = loaded(channel);
	const off_t offset = (off_t)channel->message.request.value;
	uint8_t found[sizeof(code)];
	struct stat st;

	if (!object)
		return refuse("a probe before the programs");
	if (!object->told.single)
		return -EOPNOTSUPP;
	if (fstat(file, &st) < 0 || !S_ISREG(st.st_mode) ||
	    pread(file, found, sizeof(found), offset) != sizeof(found) ||
	    memcmp(found, code, sizeof(code)) != 0)
		return refuse("a probe on what is no stub");
	return make_one(channel, object, OBJECT_INSIDE, file, channel->message.request.value, 0);
}

/* Where in the file is for the daemon to find out, as with libraries: a wrong place harms that
 * process alone. */
static int do_freed(struct channel *channel, int file)
{
	const struct broker_request *request = &channel->message.request;
	const struct object *object = loaded(channel);
	char path[PATH_MAX];
	struct stat st;
	int r;

	if (!object)
		return refuse("a probe before the programs");
	if (!object->told.single)
		return -EOPNOTSUPP;
	if (fstat(file, &st) < 0 || !S_ISREG(st.st_mode) || request->value >= (uint64_t)st.st_size)
		return refuse("a probe on what is not a regular file, or behind its end");
	r = read_name(file, path);
	if (r < 0)
		return r;
	if (!library_matches(path, PYTHON_FILES))
		return refuse("a probe on a file that is not a Python");
	return make_one(channel, object, OBJECT_FREED, file, request->value, request->copy);
}

static int hand_over_iterators(struct channel *channel, int (*load)(int *ret), size_t count)
{
	int fd[OBJECT_ITERATOR_FDS], r = load(fd);

	malloc_trim(0);
	for (size_t i = 0; r == 0 && i < count; i++)
		hand_over(channel, fd[i]);
	return r;
}

static int do_look(struct channel *channel, int file)
{
	return hand_over_iterators(channel, object_look, 2);
}

static int do_held(struct channel *channel, int file)
{
	return hand_over_iterators(channel, object_held, 2);
}

static int do_hooked(struct channel *channel, int file)
{
	return hand_over_iterators(channel, object_hooked, OBJECT_ITERATOR_FDS);
}

static int do_sample(struct channel *channel, int file)
{
	return hand_over_one(channel, event_sample(channel->message.request.pid));
}

static int start_channel(struct server *server, int socket, bool samples);

static int do_sampler(struct channel *channel, int file)
{
	struct server *server = channel->server;
	_cleanup_(closep) int socket = fcntl(file, F_DUPFD_CLOEXEC, 3);
	int r = -EBUSY;

	if (socket < 0)
		return -errno;
	pthread_mutex_lock(&server->lock);
	if (server->samplers < SAMPLERS_MAX)
		r = start_channel(server, socket, true);
	server->samplers += r == 0;
	pthread_mutex_unlock(&server->lock);
	if (r == 0)
		TAKE_FD(socket);
	return r;
}

static int do_mapped(struct channel *channel, int file)
{
	return hand_over_one(channel, event_mapped(-1, (uint32_t)channel->message.request.value));
}

static int (*const doing[BROKER_KINDS])(struct channel *channel, int file) = {
	[BROKER_LOAD] = do_load,	   [BROKER_LINK] = do_link,
	[BROKER_CALIBRATE] = do_calibrate, [BROKER_STUB] = do_stub,
	[BROKER_LOOK] = do_look,	   [BROKER_SAMPLE] = do_sample,
	[BROKER_MAPPED] = do_mapped,	   [BROKER_SAMPLER] = do_sampler,
	[BROKER_HELD] = do_held,	   [BROKER_FREED] = do_freed,
	[BROKER_HOOKED] = do_hooked,
};

static void close_all(int *fd, uint32_t count)
{
	while (count)
		close(fd[--count]);
}

/* As many messages as the descriptors need. */
static int answer(struct channel *channel)
{
	uint32_t sent = 0, fds;
	ssize_t n;

	do {
		fds = channel->count - sent < SPAWN_FDS ? channel->count - sent : SPAWN_FDS;
		channel->answer.more = sent + fds < channel->count;
		n = spawn_send(channel->socket, &channel->answer, sizeof(channel->answer),
			       channel->fd + sent, fds);
		sent += fds;
	} while (n >= 0 && channel->answer.more);
	return n < 0 ? (int)n : 0;
}

static int serve(struct channel *channel, size_t size, int *file, uint32_t files)
{
	int r;

	channel->answer = (struct broker_answer){ .result = 0 };
	channel->count = 0;
	if (broker_check(&channel->message, size, files) < 0)
		r = refuse("no request");
	else if (channel->samples && channel->message.request.kind != BROKER_SAMPLE)
		r = refuse("more than samples by a channel for them");
	else
		r = doing[channel->message.request.kind](channel, files ? file[0] : -1);
	channel->answer.result = r;
	if (r < 0) {
		close_all(channel->fd, channel->count);
		channel->count = 0;
	}
	close_all(file, files);
	r = answer(channel);
	close_all(channel->fd, channel->count);
	return r;
}

static void *channel_main(void *data)
{
	struct channel *channel = data;
	int file[SPAWN_FDS];
	uint32_t files;
	ssize_t n;

	do {
		n = spawn_receive(channel->socket, &channel->message, sizeof(channel->message), 0,
				  file, &files);
		if (n < 0 && n != -EMSGSIZE)
			break;
	} while (n != 0 && serve(channel, n < 0 ? 0 : (size_t)n, file, files) == 0);
	if (!channel->samples)
		return NULL;
	pthread_mutex_lock(&channel->server->lock);
	channel->server->samplers--;
	pthread_mutex_unlock(&channel->server->lock);
	close(channel->socket);
	free(channel);
	return NULL;
}

static int start_channel(struct server *server, int socket, bool samples)
{
	_cleanup_(freep) struct channel *channel = calloc(1, sizeof(*channel));
	pthread_t thread;
	int r;

	if (!channel)
		return -ENOMEM;
	channel->server = server;
	channel->socket = socket;
	channel->samples = samples;
	r = thread_start(&thread, channel_main, channel);
	if (r < 0)
		return r;
	TAKE(channel);
	return -pthread_detach(thread);
}

_Noreturn void broker_run(const struct broker_config *config, const struct broker_ends *ends)
{
	static struct server server = { .lock = PTHREAD_MUTEX_INITIALIZER };
	const int quiet[] = { SIGTERM, SIGINT, SIGHUP, SIGPIPE };
	char byte;

	server.config = config;
	for (size_t i = 0; i < ARRAY_SIZE(quiet); i++)
		signal(quiet[i], SIG_IGN);
	prctl(PR_SET_NAME, NAME);
	libbpf_set_print(print);
	trial_begin(&server.trial);
	thread_hurry_with_others();
	if (rights_broker() < 0)
		_exit(EXIT_FAILURE);
	for (uint32_t i = 0; i < ends->channels; i++)
		if (start_channel(&server, ends->channel[i], false) < 0)
			_exit(EXIT_FAILURE);
	/* Nothing is ever sent: this is its end. */
	while (read(ends->life, &byte, 1) > 0)
		;
	_exit(EXIT_SUCCESS);
}
