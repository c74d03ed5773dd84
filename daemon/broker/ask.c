/* Ask: the daemon's side of the broker. Each thread that asks has a channel for as long as it takes
 * to be answered; there are as many as the broker has threads. The first ones are for links. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>

#include "core/base/array.h"
#include "daemon/broker/broker.h"
#include "daemon/helper/spawn.h"

#define CHANNELS (BROKER_LINKERS + BROKER_OTHERS)

struct broker {
	int life, channel[CHANNELS];
	pthread_mutex_t lock;
	/* Under the lock: */
	pthread_cond_t freed; /* any of them */
	bool busy[CHANNELS];
};

struct reply {
	struct broker_answer answer;
	size_t count, room;
	int *fd;
};

int broker_life(const struct broker *broker)
{
	return broker->life;
}

struct broker *broker_free(struct broker *broker)
{
	if (!broker)
		return NULL;
	closep(&broker->life);
	for (size_t i = 0; i < CHANNELS; i++)
		closep(&broker->channel[i]);
	pthread_cond_destroy(&broker->freed);
	pthread_mutex_destroy(&broker->lock);
	free(broker);
	return NULL;
}

/* Of the daemon's descriptors the broker keeps its own ends only, which are `end`. */
static _Noreturn void begin(const struct broker_config *config, int end[CHANNELS + 1])
{
	const struct broker_ends ends = { end[0], end + 1, CHANNELS };
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (dup2(null, STDIN_FILENO) < 0)
		_exit(EXIT_FAILURE);
	spawn_keep(end, CHANNELS + 1);
	broker_run(config, &ends);
}

static int pair_up(int *ours, int *theirs)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	*ours = pair[0];
	*theirs = pair[1];
	return 0;
}

int broker_start(const struct broker_config *config, struct broker **ret)
{
	_cleanup_(broker_freep) struct broker *broker = calloc(1, sizeof(*broker));
	int end[CHANNELS + 1], r;
	pid_t pid = -1;

	if (!broker)
		return -ENOMEM;
	pthread_mutex_init(&broker->lock, NULL);
	pthread_cond_init(&broker->freed, NULL);
	memset(end, -1, sizeof(end));
	memset(broker->channel, -1, sizeof(broker->channel));
	broker->life = -1;
	r = pair_up(&broker->life, &end[0]);
	for (size_t i = 0; r == 0 && i < CHANNELS; i++)
		r = pair_up(&broker->channel[i], &end[i + 1]);
	if (r == 0)
		pid = fork();
	if (pid == 0)
		begin(config, end);
	if (r == 0 && pid < 0)
		r = -errno;
	for (size_t i = 0; i < CHANNELS + 1; i++)
		closep(&end[i]);
	if (r < 0)
		return r;
	*ret = TAKE(broker);
	return 0;
}

/* One from `first` on, before `end`. */
static uint32_t take_channel(struct broker *broker, uint32_t first, uint32_t end)
{
	uint32_t i = first;

	pthread_mutex_lock(&broker->lock);
	while (broker->busy[i])
		if (++i == end) {
			pthread_cond_wait(&broker->freed, &broker->lock);
			i = first;
		}
	broker->busy[i] = true;
	pthread_mutex_unlock(&broker->lock);
	return i;
}

static uint32_t channel_for(struct broker *broker, uint32_t kind)
{
	bool link = kind == BROKER_LINK || kind == BROKER_STUB || kind == BROKER_FREED ||
		    kind == BROKER_CALIBRATE;

	return link ? take_channel(broker, 0, BROKER_LINKERS)
		    : take_channel(broker, BROKER_LINKERS, CHANNELS);
}

static void give_channel(struct broker *broker, uint32_t i)
{
	pthread_mutex_lock(&broker->lock);
	broker->busy[i] = false;
	pthread_cond_broadcast(&broker->freed);
	pthread_mutex_unlock(&broker->lock);
}

static void reply_close(struct reply *reply)
{
	while (reply->count)
		close(reply->fd[--reply->count]);
}

static int reply_read(int socket, struct reply *reply)
{
	int fd[SPAWN_FDS];
	uint32_t fds;
	ssize_t n;

	do {
		n = spawn_receive(socket, &reply->answer, sizeof(reply->answer), 0, fd, &fds);
		for (uint32_t i = 0; i < fds; i++) {
			if (reply->count < reply->room)
				reply->fd[reply->count++] = fd[i];
			else
				close(fd[i]);
		}
	} while (n == sizeof(reply->answer) && reply->answer.more);
	if (n < 0)
		return n == -ECONNRESET ? -EPIPE : (int)n;
	return n == sizeof(reply->answer) ? reply->answer.result : -EPIPE;
}

/* `file` < 0: none. The descriptors that come are the caller's only if this succeeds. */
static int ask(struct broker *broker, const struct broker_request *request, size_t size, int file,
	       struct reply *reply)
{
	uint32_t channel = channel_for(broker, request->kind);
	int socket = broker->channel[channel], r;
	ssize_t n = spawn_send(socket, request, size, &file, file < 0 ? 0 : 1);

	r = n < 0 ? (int)n : reply_read(socket, reply);
	give_channel(broker, channel);
	if (r < 0)
		reply_close(reply);
	return r;
}

/* Exactly `count` descriptors. */
static int ask_for(struct broker *broker, const struct broker_request *request, int file,
		   struct broker_answer *ret, int *ret_fd, size_t count)
{
	struct reply reply = { .fd = ret_fd, .room = count };
	int r = ask(broker, request, sizeof(*request), file, &reply);

	if (r < 0)
		return r;
	if (reply.count != count) {
		reply_close(&reply);
		return -EPROTO;
	}
	if (ret)
		*ret = reply.answer;
	return 0;
}

static int ask_for_one(struct broker *broker, const struct broker_request *request, int file)
{
	int fd, r = ask_for(broker, request, file, NULL, &fd, 1);

	return r < 0 ? r : fd;
}

int broker_load(struct broker *broker, enum probe_way way, uint64_t ring_bytes,
		struct broker_programs *ret, int ret_map[BROKER_MAPS])
{
	const struct broker_request request = {
		.kind = BROKER_LOAD,
		.way = (uint8_t)way,
		.value = ring_bytes,
	};
	struct broker_answer answer;
	int r = ask_for(broker, &request, -1, &answer, ret_map, BROKER_MAPS);

	if (r == 0)
		*ret = answer.programs;
	return r;
}

int broker_link(struct broker *broker, int file, const struct broker_request *request,
		const struct broker_site *site, struct broker_links *ret)
{
	_cleanup_(freep) struct broker_message *message = malloc(sizeof(*message));
	_cleanup_(freep) int *fd = calloc(BROKER_LINKS_MAX, sizeof(*fd));
	struct reply reply = { .fd = fd, .room = BROKER_LINKS_MAX };
	int *fitting, r;

	if (!message || !fd)
		return -ENOMEM;
	if (request->sites > BROKER_SITES_MAX)
		return -E2BIG;
	message->request = *request;
	message->request.kind = BROKER_LINK;
	memcpy(message->site, site, request->sites * sizeof(*site));
	r = ask(broker, &message->request, sizeof(*request) + request->sites * sizeof(*site), file,
		&reply);
	if (r < 0)
		return r;
	fitting = realloc(fd, (reply.count + 1) * sizeof(*fd));
	ret->fd = fitting ? fitting : fd;
	fd = NULL;
	ret->count = reply.count;
	ret->failed = reply.answer.failed;
	return 0;
}

int broker_calibrate(struct broker *broker, uint32_t pid)
{
	const struct broker_request request = { .kind = BROKER_CALIBRATE, .pid = pid };

	return ask_for_one(broker, &request, -1);
}

int broker_stub(struct broker *broker, int file, uint64_t offset, uint32_t pid)
{
	const struct broker_request request = {
		.kind = BROKER_STUB,
		.pid = pid,
		.value = offset,
	};

	return ask_for_one(broker, &request, file);
}

int broker_freed(struct broker *broker, int file, uint64_t offset, uint32_t pid, uint32_t place)
{
	const struct broker_request request = {
		.kind = BROKER_FREED,
		.pid = pid,
		.value = offset,
		.copy = (uint16_t)place,
	};

	return ask_for_one(broker, &request, file);
}

int broker_sampler(struct broker *broker)
{
	const struct broker_request request = { .kind = BROKER_SAMPLER };
	_cleanup_(closep) int ours = -1, theirs = -1;
	int r = pair_up(&ours, &theirs);

	if (r == 0)
		r = ask_for(broker, &request, theirs, NULL, NULL, 0);
	return r < 0 ? r : TAKE_FD(ours);
}

int broker_sample(int sampler, uint32_t tid)
{
	const struct broker_request request = { .kind = BROKER_SAMPLE, .pid = tid };
	int fd = -1, r;
	struct reply reply = { .fd = &fd, .room = 1 };
	ssize_t n = spawn_send(sampler, &request, sizeof(request), NULL, 0);

	r = n < 0 ? (int)n : reply_read(sampler, &reply);
	if (r == 0 && reply.count != 1)
		r = -EPROTO;
	if (r < 0)
		reply_close(&reply);
	return r < 0 ? r : fd;
}

int broker_mapped(struct broker *broker, uint32_t cpu)
{
	const struct broker_request request = { .kind = BROKER_MAPPED, .value = cpu };

	return ask_for_one(broker, &request, -1);
}

static int ask_for_iterators(struct broker *broker, uint8_t kind, int *ret, size_t count)
{
	const struct broker_request request = { .kind = kind };

	return ask_for(broker, &request, -1, NULL, ret, count);
}

int broker_look(struct broker *broker, int ret[2])
{
	return ask_for_iterators(broker, BROKER_LOOK, ret, 2);
}

int broker_held(struct broker *broker, int ret[2])
{
	return ask_for_iterators(broker, BROKER_HELD, ret, 2);
}

int broker_hooked(struct broker *broker, int ret[3])
{
	return ask_for_iterators(broker, BROKER_HOOKED, ret, 3);
}
