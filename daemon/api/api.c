/* Api: the control socket, its clients, and the order of shutdown. Closing: no new clients, all
 * connections closed, running queries cancelled; when the last of them has ended the wake handle is
 * closed, and its close callback frees everything. */
#include "daemon/api/api.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "core/base/cleanup.h"
#include "core/base/log.h"
#include "daemon/api/internal.h"
#include "daemon/limits.h"
#include "proto/paths.h"

#define BACKLOG	       128
#define SWEEP_MS       1000
#define POOL_FOR_OTHER 5 /* two driver libraries, the calibration, a name of a user, settings */

static struct api *api_free(struct api *api)
{
	if (!api)
		return NULL;
	if (api->path)
		unlink(api->path);
	quota_release(&api->places);
	quota_release(&api->ticket_share);
	quota_release(&api->viewers);
	free(api->path);
	free(api->group);
	free(api->database);
	free(api->boot_id);
	free(api);
	return NULL;
}
CLEANUP_DEFINE(struct api, api_free)

static void on_handle_closed(uv_handle_t *handle)
{
	struct api *api = handle->data;

	api->handles--;
	api_close_rest(api);
}

static void close_handle(uv_handle_t *handle)
{
	if (!uv_is_closing(handle))
		uv_close(handle, on_handle_closed);
}

void api_close_rest(struct api *api)
{
	void (*closed)(void *data) = api->closed;
	void *data = api->data;

	if (!closed || api->running_count)
		return;
	close_handle((uv_handle_t *)&api->wake);
	if (api->handles)
		return;
	api_free(api);
	closed(data);
}

static void on_wake(uv_async_t *wake)
{
	jobs_flush(wake->data);
}

static void on_sweep(uv_timer_t *timer)
{
	struct api *api = timer->data;
	struct client *client;

	list_for_each(client, &api->clients, link)
		client_sweep(client, uv_now(api->loop));
	jobs_evict(api);
	if (list_empty(&api->clients))
		uv_timer_stop(timer);
}

static void on_connection(uv_stream_t *listener, int status)
{
	static struct log_limit limit;
	struct api *api = listener->data;
	int r = status;

	if (r == 0)
		r = client_accept(api, listener);
	if (r < 0 && log_allowed(&limit, 1))
		log_warning_errno(r, "Failed to accept a client on the control socket");
	if (!uv_is_active((uv_handle_t *)&api->sweep))
		uv_timer_start(&api->sweep, on_sweep, SWEEP_MS, SWEEP_MS);
}

/* Somebody still answers there. */
static bool answers(const struct sockaddr_un *address)
{
	_cleanup_(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	return fd >= 0 && (connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 ||
			   errno == EAGAIN);
}

/* One that is of the daemon's own group is so without a call that the unit does not have. */
static int open_to_group(const char *path, gid_t group)
{
	struct stat file;

	if (lstat(path, &file) < 0 || (file.st_gid != group && chown(path, -1, group) < 0))
		return -1;
	return chmod(path, 0660);
}

static int make_socket(struct api *api, const char *path)
{
	_cleanup_(closep) int fd = -1;
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct stat there;

	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path, path, strlen(path));
	if (lstat(path, &there) == 0 && !S_ISSOCK(there.st_mode))
		return -EEXIST;
	if (answers(&address))
		return -EADDRINUSE;
	if (unlink(path) < 0 && errno != ENOENT)
		return -errno;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	/* A socket is bound with the mode it has before: it is never open to all. */
	if (fd < 0 || fchmod(fd, 0600) < 0 ||
	    bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	api->path = strdup(path);
	if (!api->path)
		return -ENOMEM;
	if (api->rule.has_group && open_to_group(path, api->rule.group) < 0)
		return -errno;
	return TAKE_FD(fd);
}

static int listen_on(struct api *api, const struct api_config *config)
{
	_cleanup_(closep) int fd = -1;
	int r;

	fd = config->fd >= 0 ? config->fd : make_socket(api, config->path);
	if (fd < 0)
		return fd;
	r = uv_pipe_open(&api->listener, fd);
	if (r < 0)
		return r;
	TAKE_FD(fd);
	return uv_listen((uv_stream_t *)&api->listener, BACKLOG, on_connection);
}

static int init_handles(struct api *api)
{
	int r;

	r = uv_pipe_init(api->loop, &api->listener, 0);
	if (r < 0)
		return r;
	r = uv_timer_init(api->loop, &api->sweep);
	if (r < 0)
		return r;
	r = uv_timer_init(api->loop, &api->recheck);
	if (r < 0)
		return r;
	r = uv_timer_init(api->loop, &api->beat);
	if (r < 0)
		return r;
	r = uv_async_init(api->loop, &api->wake, on_wake);
	if (r < 0)
		return r;
	api->listener.data = api;
	api->sweep.data = api;
	api->recheck.data = api;
	api->beat.data = api;
	api->wake.data = api;
	api->handles = 5;
	return 0;
}

static void ignore_closed(void *data)
{
}

int api_new(uv_loop_t *loop, const struct api_config *config, const struct api_callbacks *callbacks,
	    void *data, struct api **ret)
{
	_cleanup_(api_freep) struct api *api = calloc(1, sizeof(*api));
	char threads[16];
	int r;

	if (!api)
		return -ENOMEM;
	snprintf(threads, sizeof(threads), "%d",
		 LIMIT_QUERIES + LIMIT_QUICK_QUERIES + POOL_FOR_OTHER);
	setenv("UV_THREADPOOL_SIZE", threads, 0);
	api->loop = loop;
	api->wall_offset_ns = config->wall_offset_ns;
	api->zygote = config->zygote;
	api->query_role = config->query_role;
	api->half_ms = config->half_ms ? config->half_ms : LIMIT_CLIENT_HALF_MS;
	api->read_ms = config->read_ms ? config->read_ms : LIMIT_QUERY_READ_MS;
	api->stall_ms = config->stall_ms ? config->stall_ms : LIMIT_CLIENT_STALL_MS;
	api->beat_ms = config->beat_ms ? config->beat_ms : LIMIT_LIVE_BEAT_MS;
	api->rule = peer_rule_of(config->group);
	api->own = config->own;
	api->callbacks = *callbacks;
	api->data = data;
	api->places.total = LIMIT_CLIENTS;
	api->places.lent = LIMIT_CLIENTS_LENT;
	api->ticket_share.total = LIMIT_TICKETS;
	list_init(&api->clients);
	list_init(&api->waiting);
	list_init(&api->running);
	list_init(&api->tickets);
	list_init(&api->subscriptions);
	api->viewers.total = LIMIT_VIEWERS;
	api->group = strdup(config->group ? config->group : TS_GROUP);
	api->database = strdup(config->database);
	api->boot_id = strdup(config->boot_id);
	if (!api->group || !api->database || !api->boot_id)
		return -ENOMEM;
	r = init_handles(api);
	if (r < 0)
		return r;
	r = listen_on(api, config);
	if (r < 0) {
		api_close(TAKE(api), ignore_closed);
		return r;
	}
	*ret = TAKE(api);
	return 0;
}

void api_close(struct api *api, void (*closed)(void *data))
{
	struct client *client;

	api->closed = closed;
	close_handle((uv_handle_t *)&api->listener);
	close_handle((uv_handle_t *)&api->sweep);
	close_handle((uv_handle_t *)&api->recheck);
	close_handle((uv_handle_t *)&api->beat);
	while ((client = list_first(&api->clients, struct client, link)))
		client_close(client);
	tickets_orphan(api);
	api_close_rest(api);
}
