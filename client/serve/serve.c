/* Serve: answers requests for the page and what it shows, and for /metrics, from the daemon's
 * answers of that moment. Who does not know the token is told nothing. A daemon that is away is
 * said to be, until it is back. */
#include "client/serve/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/base/complain.h"
#include "client/serve/addresses.h"
#include "client/serve/collect.h"
#include "client/serve/flame.h"
#include "client/serve/http.h"
#include "client/serve/listen.h"
#include "client/serve/memory.h"
#include "client/serve/page.h"
#include "client/serve/places.h"
#include "client/serve/predict.h"
#include "client/serve/relay.h"
#include "client/serve/timeline.h"
#include "client/serve/token.h"
#include "client/serve/waits.h"
#include "client/serve/web.h"
#include "client/ship/status.h"
#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "core/base/clock.h"
#include "core/base/text.h"

#define CONNECTION_BYTES  (32u << 10) /* of a request line and its headers */
#define CONNECTION_STACK  (256u << 10)
#define CONNECTION_IDLE_S 10u
#define REST_S		  2 /* without requests, until memory is given back */
#define ARENAS		  2 /* of malloc; each keeps what it once needed */
/* What is free at the end of an arena, which malloc_trim() leaves alone. Without a bound of ours
 * malloc raises its own, to twice the largest block that there ever was. */
#define KEPT_BYTES  (256 << 10)
#define PATIENCE_MS 5000 /* Prometheus waits for 10 s */
#define TLS_BYTES   (1 << 20)
#define PAGE_PATH   "/t/" /* TOKEN/ */

struct server {
	const struct http *http;
	struct source source, other; /* a second recording, or without a file */
	struct listening listening;
	struct fragments *fragments;
	struct places *places;
	atomic_uint answers;
	char token[TOKEN_MAX + 1];
	char *tls, *key; /* PEM: all of it, and where the key begins */
	pthread_mutex_t lock;
	/* Under the lock: */
	struct series *series;
	struct part_names parts;
};

static const char *header(const struct server *server, struct MHD_Connection *connection,
			  const char *name)
{
	const char *value =
		server->http->MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);

	return value ? value : "";
}

/* Under the lock. 0: the text is whole. */
static int render(struct server *server, bool classic, struct web_answer *answer)
{
	struct openmetrics_daemon daemon;
	struct status ship;
	const struct openmetrics metrics = {
		.series = server->series,
		.parts = &server->parts,
		.daemon = &daemon,
		.ship = status_read(STATUS_PATH, &ship) == 0 ? &ship : NULL,
		.now_s = clock_ns(CLOCK_REALTIME) / NS_PER_S,
		.classic = classic,
	};
	FILE *out;
	int r = collect(&server->source.options, server->fragments, server->series, &server->parts,
			&daemon);

	if (r < 0)
		return r;
	out = text_open(&answer->text, &answer->size);
	if (!out) {
		complain_memory();
		return -ENOMEM;
	}
	openmetrics_write(out, &metrics);
	if (text_close(out) == 0)
		return 0;
	complain_memory();
	free(TAKE(answer->text));
	return -ENOMEM;
}

static void answer_metrics(struct server *server, struct MHD_Connection *connection,
			   struct web_answer *answer)
{
	bool classic =
		!strstr(header(server, connection, "Accept"), "application/openmetrics-text");
	char why[COMPLAINT_BYTES] = "";
	int r;

	if (server->source.options.file) {
		web_say(answer, MHD_HTTP_NOT_FOUND, "A recording has no metrics");
		return;
	}
	*answer = (struct web_answer){
		.status = MHD_HTTP_OK,
		.type = classic ? OPENMETRICS_CLASSIC : OPENMETRICS_TYPE,
	};
	complain_into(why);
	pthread_mutex_lock(&server->lock);
	r = render(server, classic, answer);
	pthread_mutex_unlock(&server->lock);
	complain_into(NULL);
	if (r < 0)
		web_say(answer, MHD_HTTP_SERVICE_UNAVAILABLE, why);
}

/* To the page, whose files then have the token in their path: a cookie would also be sent to the
 * servers on other ports of this host. */
static void answer_root(const struct server *server, struct web_answer *answer)
{
	web_say(answer, MHD_HTTP_SEE_OTHER, "TraceSmith");
	snprintf(answer->location, sizeof(answer->location), PAGE_PATH "%s/", server->token);
}

/* The first one that has the path; with a slash at its end, it has all below. */
static const struct route {
	const char *path;
	void (*answer)(const struct web_request *request, struct web_answer *answer);
} routes[] = {
	{ "query/", relay_query }, { "timeline", timeline_lanes }, { "extent", timeline_extent },
	{ "flame", flame_graph },  { "memory", memory_layers },	   { "addresses", addresses_map },
	{ "waits", waits_arrows }, { "whatif", predict_lanes },	   { "clock", relay_clock },
	{ "", page_file },
};

static bool knows_token(const struct server *server, struct MHD_Connection *connection)
{
	static const char scheme[] = "Bearer ";
	const char *given = server->http->MHD_lookup_connection_value(
		connection, MHD_GET_ARGUMENT_KIND, "token");

	if (!given) {
		given = header(server, connection, "Authorization");
		if (strncasecmp(given, scheme, strlen(scheme)) != 0)
			return false;
		given += strlen(scheme);
	}
	return token_is(server->token, given);
}

/* Behind /t/TOKEN/, or NULL. */
static const char *behind_token(const struct server *server, const char *path)
{
	char given[TOKEN_MAX + 1];
	size_t size;

	if (strncmp(path, PAGE_PATH, strlen(PAGE_PATH)) != 0)
		return NULL;
	path += strlen(PAGE_PATH);
	size = strcspn(path, "/");
	if (path[size] != '/' || size > TOKEN_MAX)
		return NULL;
	snprintf(given, sizeof(given), "%.*s", (int)size, path);
	return token_is(server->token, given) ? path + size + 1 : NULL;
}

static bool has_path(const struct route *route, const char *path)
{
	size_t size = strlen(route->path);

	if (size && route->path[size - 1] != '/')
		return strcmp(path, route->path) == 0;
	return strncmp(path, route->path, size) == 0;
}

static void answer_page(struct server *server, struct MHD_Connection *connection, const char *path,
			struct web_answer *answer)
{
	struct web_request request = {
		.http = server->http,
		.connection = connection,
		.source = &server->source,
	};
	const struct route *route = routes;
	const char *recording;
	size_t size;

	while (!has_path(route, path))
		route++;
	size = strlen(route->path);
	request.rest = path + size;
	request.other = server->other.options.file;
	recording = web_argument(&request, "recording");
	if (request.other && recording && strcmp(recording, "2") == 0)
		request.source = &server->other;
	route->answer(&request, answer);
}

static struct place *place_of(const struct server *server, struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info = server->http->MHD_get_connection_info(
		connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	return info->socket_context;
}

static void find_answer(struct server *server, struct MHD_Connection *connection, const char *path,
			const char *method, struct web_answer *answer)
{
	const char *of_page = behind_token(server, path);
	bool known = of_page || knows_token(server, connection);

	if (known)
		places_keep(server->places, place_of(server, connection));
	/* With a certificate it is the browser that looks whether we are who it asked for. */
	if (!server->tls && !listen_is_local_name(header(server, connection, "Host")))
		web_say(answer, MHD_HTTP_FORBIDDEN, "Forbidden");
	else if (!known)
		web_say(answer, MHD_HTTP_UNAUTHORIZED, "Unauthorized");
	else if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
		web_say(answer, MHD_HTTP_METHOD_NOT_ALLOWED, "There is only GET");
	else if (of_page)
		answer_page(server, connection, of_page, answer);
	else if (strcmp(path, "/metrics") == 0)
		answer_metrics(server, connection, answer);
	else if (strcmp(path, "/") == 0)
		answer_root(server, answer);
	else
		web_say(answer, MHD_HTTP_NOT_FOUND, "There is nothing here: see / and /metrics");
}

static enum MHD_Result send_answer(const struct server *server, struct MHD_Connection *connection,
				   const struct web_answer *answer)
{
	/* The token is in the address: no other site is to see that. */
	static const char *const headers[][2] = {
		{ "Cache-Control", "no-store" },
		{ "Content-Security-Policy",
		  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
		  "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'" },
		{ "Referrer-Policy", "no-referrer" },
		{ "X-Content-Type-Options", "nosniff" },
	};
	const struct http *http = server->http;
	struct MHD_Response *response;
	enum MHD_Result r;

	response = http->MHD_create_response_from_buffer(
		answer->text	? answer->size
		: answer->fixed ? answer->size
				: 0,
		answer->text ? answer->text : (char *)answer->fixed,
		answer->text ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);
	if (!response) {
		free(answer->text);
		return MHD_NO;
	}
	http->MHD_add_response_header(response, "Content-Type", answer->type);
	for (size_t i = 0; i < ARRAY_SIZE(headers); i++)
		http->MHD_add_response_header(response, headers[i][0], headers[i][1]);
	if (answer->status == MHD_HTTP_UNAUTHORIZED)
		http->MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
	if (*answer->location)
		http->MHD_add_response_header(response, "Location", answer->location);
	r = http->MHD_queue_response(connection, answer->status, response);
	http->MHD_destroy_response(response);
	return r;
}

/* It is called as soon as the headers are there, and no body is waited for. */
static enum MHD_Result on_request(void *data, struct MHD_Connection *connection, const char *path,
				  const char *method, const char *version, const char *upload,
				  size_t *upload_size, void **own)
{
	struct server *server = data;
	struct web_answer answer;

	find_answer(server, connection, path, method, &answer);
	atomic_fetch_add(&server->answers, 1);
	return send_answer(server, connection, &answer);
}

static void on_answered(void *data, struct MHD_Connection *connection, void **own,
			enum MHD_RequestTerminationCode how)
{
	struct server *server = data;

	places_start(server->places, place_of(server, connection));
}

/* A connection was accepted, or is closed. */
static void on_connection(void *data, struct MHD_Connection *connection, void **place,
			  enum MHD_ConnectionNotificationCode what)
{
	struct server *server = data;
	const struct http *http = server->http;
	const union MHD_ConnectionInfo *fd, *peer;

	if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
		places_give_back(server->places, *place);
		return;
	}
	fd = http->MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	peer = http->MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
	*place = places_take(server->places, fd->connect_fd, peer->client_addr);
	if (!*place)
		shutdown(fd->connect_fd, SHUT_RDWR);
}

static int load_tls(struct server *server, const char *path)
{
	_cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	char *key;
	ssize_t size;

	server->tls = calloc(1, TLS_BYTES + 1);
	if (!server->tls) {
		complain_memory();
		return -ENOMEM;
	}
	size = fd < 0 ? -1 : read(fd, server->tls, TLS_BYTES);
	if (size < 0) {
		complain("Cannot read %s: %s", path, strerror(errno));
		return -EIO;
	}
	key = strstr(server->tls, "PRIVATE KEY-----");
	while (key && key > server->tls && strncmp(key, "-----BEGIN ", 11) != 0)
		key--;
	if (!key || !strstr(server->tls, "-----BEGIN CERTIFICATE-----")) {
		complain("%s must have a certificate and its private key, as PEM", path);
		return -EINVAL;
	}
	server->key = key;
	return 0;
}

static struct MHD_Daemon *start(struct server *server)
{
	const struct MHD_OptionItem secure[] = {
		{ MHD_OPTION_HTTPS_MEM_KEY, 0, server->key },
		{ MHD_OPTION_HTTPS_MEM_CERT, 0, server->tls },
		{ MHD_OPTION_END, 0, NULL },
	};
	const struct MHD_OptionItem plain[] = { { MHD_OPTION_END, 0, NULL } };
	struct MHD_OptionItem common[] = {
		{ MHD_OPTION_LISTEN_SOCKET, server->listening.fd, NULL },
		{ MHD_OPTION_CONNECTION_LIMIT, PLACES_AND_SHUT, NULL },
		{ MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_BYTES, NULL },
		{ MHD_OPTION_CONNECTION_TIMEOUT, CONNECTION_IDLE_S, NULL },
		{ MHD_OPTION_THREAD_STACK_SIZE, CONNECTION_STACK, NULL },
		{ MHD_OPTION_END, 0, NULL },
	};
	unsigned int flags = MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD |
			     (server->tls ? MHD_USE_TLS : 0);

	return server->http->MHD_start_daemon(flags, 0, NULL, NULL, on_request, server,
					      MHD_OPTION_NOTIFY_CONNECTION, on_connection, server,
					      MHD_OPTION_NOTIFY_COMPLETED, on_answered, server,
					      MHD_OPTION_ARRAY, common, MHD_OPTION_ARRAY,
					      server->tls ? secure : plain, MHD_OPTION_END);
}

/* Everything that can be refused is, before anybody can connect. */
static int prepare(struct server *server)
{
	const struct options *options = &server->source.options;
	int r;

	server->http = http_load();
	if (!server->http)
		return -ENOENT;
	r = token_get(options->token, server->token);
	if (r == 0 && options->tls)
		r = load_tls(server, options->tls);
	if (r == 0)
		r = listen_open(options->listen ? options->listen : LISTEN_DEFAULT,
				&server->listening);
	if (r == 0 && !server->tls && !server->listening.local) {
		complain("Other hosts could read along on %s: give a certificate with --tls, or "
			 "listen on " LISTEN_DEFAULT,
			 server->listening.name);
		r = -EPERM;
	}
	if (r < 0)
		return r;
	server->series = series_new();
	server->fragments = fragments_new();
	server->places = places_new();
	if (server->series && server->fragments && server->places)
		return 0;
	complain_memory();
	return -ENOMEM;
}

/* A token in a file is for who may read that. */
static void announce(const struct server *server)
{
	static const char *const paths[] = { "/", "/metrics" };
	size_t count = server->source.options.file ? 1 : ARRAY_SIZE(paths);
	bool known = server->source.options.token;

	for (size_t i = 0; i < count; i++)
		printf("http%s://%s%s%s%s\n", server->tls ? "s" : "", server->listening.name,
		       paths[i], known ? "" : "?token=", known ? "" : server->token);
}

static void wait_for_end(struct server *server, const sigset_t *signals)
{
	const struct timespec rest = { .tv_sec = REST_S };
	unsigned int answers, rested = 0, last = 0;

	while (sigtimedwait(signals, NULL, &rest) < 0) {
		fragments_look(server->fragments, &server->source.options,
			       clock_ns(CLOCK_MONOTONIC));
		answers = atomic_load(&server->answers);
		if (answers == last && answers != rested) {
			malloc_trim(0);
			rested = answers;
		}
		last = answers;
	}
}

static int run(struct server *server)
{
	struct MHD_Daemon *daemon;
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &signals, NULL); /* before the first thread */
	signal(SIGPIPE, SIG_IGN);
	mallopt(M_ARENA_MAX, ARENAS);
	mallopt(M_TRIM_THRESHOLD, KEPT_BYTES);
	daemon = start(server);
	if (!daemon)
		return complain("Cannot start the server%s",
				server->tls ? ": does the key belong to the certificate?" : "");
	server->listening.fd = -1; /* it closes that */
	announce(server);
	fflush(stdout);
	wait_for_end(server, &signals);
	server->http->MHD_stop_daemon(daemon);
	return EXIT_DONE;
}

int serve(const struct options *options, const char *other)
{
	_cleanup_(freep) struct server *server = calloc(1, sizeof(*server));
	int r;

	if (!server)
		return complain_memory();
	source_init(&server->source, options);
	server->source.options.patience_ms = PATIENCE_MS;
	source_init(&server->other, options);
	server->other.options.file = other;
	server->listening.fd = -1;
	pthread_mutex_init(&server->lock, NULL);
	r = prepare(server) < 0 ? EXIT_FAILED : run(server);
	series_free(server->series);
	fragments_free(server->fragments);
	places_free(server->places);
	closep(&server->listening.fd);
	if (server->tls)
		explicit_bzero(server->tls, TLS_BYTES);
	free(server->tls);
	pthread_mutex_destroy(&server->lock);
	source_done(&server->source);
	source_done(&server->other);
	return r;
}
