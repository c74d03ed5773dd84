/* Serve: answers requests for /metrics, one after another, from the daemon's answers of that
 * moment. Who does not know the token is told nothing. A daemon that is away is said to be, until
 * it is back. */
#include "client/serve/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/base/complain.h"
#include "client/serve/collect.h"
#include "client/serve/http.h"
#include "client/serve/listen.h"
#include "client/serve/token.h"
#include "core/base/array.h"
#include "core/base/cleanup.h"

#define CONNECTIONS	  128
#define CONNECTION_BYTES  (32u << 10) /* of a request line and its headers */
#define CONNECTION_STACK  (256u << 10)
#define CONNECTION_IDLE_S 10u
#define PATIENCE_MS	  5000 /* Prometheus waits for 10 s */
#define TLS_BYTES	  (1 << 20)

struct server {
	const struct http *http;
	struct options options;
	struct listening listening;
	char token[TOKEN_MAX + 1];
	char *tls, *key; /* PEM: all of it, and where the key begins */
	pthread_mutex_t lock;
	/* Under the lock: */
	struct series *series;
	struct part_names parts;
};

/* What is sent. */
struct answer {
	unsigned int status;
	const char *type;
	char *text; /* owned until it is sent */
	size_t size;
};

static void say(struct answer *answer, unsigned int status, const char *sentence)
{
	char *text = NULL;

	*answer = (struct answer){ .status = status, .type = "text/plain; charset=utf-8" };
	if (asprintf(&text, "%s\n", sentence) < 0)
		return;
	answer->text = text;
	answer->size = strlen(text);
}

static const char *header(const struct server *server, struct MHD_Connection *connection,
			  const char *name)
{
	const char *value =
		server->http->MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);

	return value ? value : "";
}

/* Under the lock. 0: the text is whole. */
static int render(struct server *server, bool classic, struct answer *answer)
{
	struct openmetrics_daemon daemon;
	const struct openmetrics metrics = {
		.series = server->series,
		.parts = &server->parts,
		.daemon = &daemon,
		.classic = classic,
	};
	FILE *out;
	int r = collect(&server->options, server->series, &server->parts, &daemon);

	if (r < 0)
		return r;
	out = open_memstream(&answer->text, &answer->size);
	if (!out) {
		complain("Not enough memory");
		return -ENOMEM;
	}
	openmetrics_write(out, &metrics);
	if (fclose(out) == 0)
		return 0;
	complain("Not enough memory");
	free(TAKE(answer->text));
	return -ENOMEM;
}

static void answer_metrics(struct server *server, struct MHD_Connection *connection,
			   struct answer *answer)
{
	bool classic =
		!strstr(header(server, connection, "Accept"), "application/openmetrics-text");
	char why[COMPLAINT_BYTES] = "";
	int r;

	*answer = (struct answer){
		.status = MHD_HTTP_OK,
		.type = classic ? OPENMETRICS_CLASSIC : OPENMETRICS_TYPE,
	};
	complain_into(why);
	pthread_mutex_lock(&server->lock);
	r = render(server, classic, answer);
	pthread_mutex_unlock(&server->lock);
	complain_into(NULL);
	if (r < 0)
		say(answer, MHD_HTTP_SERVICE_UNAVAILABLE, why);
}

static void answer_root(struct server *server, struct MHD_Connection *connection,
			struct answer *answer)
{
	say(answer, MHD_HTTP_OK, "TraceSmith: see /metrics");
}

static const struct {
	const char *path;
	void (*answer)(struct server *server, struct MHD_Connection *connection,
		       struct answer *answer);
} routes[] = {
	{ "/", answer_root },
	{ "/metrics", answer_metrics },
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

static void route(struct server *server, struct MHD_Connection *connection, const char *path,
		  const char *method, struct answer *answer)
{
	/* With a certificate it is the browser that looks whether we are who it asked for. */
	if (!server->tls && !listen_is_local_name(header(server, connection, "Host"))) {
		say(answer, MHD_HTTP_FORBIDDEN, "Forbidden");
		return;
	}
	if (!knows_token(server, connection)) {
		say(answer, MHD_HTTP_UNAUTHORIZED, "Unauthorized");
		return;
	}
	if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
		say(answer, MHD_HTTP_METHOD_NOT_ALLOWED, "There is only GET");
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(routes); i++) {
		if (strcmp(path, routes[i].path) == 0) {
			routes[i].answer(server, connection, answer);
			return;
		}
	}
	say(answer, MHD_HTTP_NOT_FOUND, "There is nothing here: see /metrics");
}

static enum MHD_Result send_answer(const struct server *server, struct MHD_Connection *connection,
				   const struct answer *answer)
{
	/* The token is in the address: no other site is to see that. */
	static const char *const headers[][2] = {
		{ "Cache-Control", "no-store" },
		{ "Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'" },
		{ "Referrer-Policy", "no-referrer" },
		{ "X-Content-Type-Options", "nosniff" },
	};
	const struct http *http = server->http;
	struct MHD_Response *response;
	enum MHD_Result r;

	response = http->MHD_create_response_from_buffer(answer->size, answer->text,
							 MHD_RESPMEM_MUST_FREE);
	if (!response) {
		free(answer->text);
		return MHD_NO;
	}
	http->MHD_add_response_header(response, "Content-Type", answer->type);
	for (size_t i = 0; i < ARRAY_SIZE(headers); i++)
		http->MHD_add_response_header(response, headers[i][0], headers[i][1]);
	if (answer->status == MHD_HTTP_UNAUTHORIZED)
		http->MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
	r = http->MHD_queue_response(connection, answer->status, response);
	http->MHD_destroy_response(response);
	return r;
}

/* It is called as soon as the headers are there, and no body is waited for. */
static enum MHD_Result on_request(void *data, struct MHD_Connection *connection, const char *path,
				  const char *method, const char *version, const char *upload,
				  size_t *upload_size, void **own)
{
	struct answer answer;

	route(data, connection, path, method, &answer);
	return send_answer(data, connection, &answer);
}

static int load_tls(struct server *server, const char *path)
{
	_cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	char *key;
	ssize_t size;

	server->tls = calloc(1, TLS_BYTES + 1);
	if (!server->tls) {
		complain("Not enough memory");
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
		{ MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS, NULL },
		{ MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_BYTES, NULL },
		{ MHD_OPTION_CONNECTION_TIMEOUT, CONNECTION_IDLE_S, NULL },
		{ MHD_OPTION_THREAD_STACK_SIZE, CONNECTION_STACK, NULL },
		{ MHD_OPTION_END, 0, NULL },
	};
	unsigned int flags = MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD |
			     (server->tls ? MHD_USE_TLS : 0);

	return server->http->MHD_start_daemon(flags, 0, NULL, NULL, on_request, server,
					      MHD_OPTION_ARRAY, common, MHD_OPTION_ARRAY,
					      server->tls ? secure : plain, MHD_OPTION_END);
}

/* Everything that can be refused is, before anybody can connect. */
static int prepare(struct server *server)
{
	const struct options *options = &server->options;
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
	if (server->series)
		return 0;
	complain("Not enough memory");
	return -ENOMEM;
}

static int run(struct server *server)
{
	struct MHD_Daemon *daemon;
	sigset_t signals;
	int number;

	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &signals, NULL); /* before the first thread */
	signal(SIGPIPE, SIG_IGN);
	daemon = start(server);
	if (!daemon)
		return complain("Cannot start the server%s",
				server->tls ? ": does the key belong to the certificate?" : "");
	server->listening.fd = -1; /* it closes that */
	printf("http%s://%s/metrics%s%s\n", server->tls ? "s" : "", server->listening.name,
	       server->options.token ? "" : "?token=", server->options.token ? "" : server->token);
	fflush(stdout);
	sigwait(&signals, &number);
	server->http->MHD_stop_daemon(daemon);
	return EXIT_DONE;
}

int serve(const struct options *options)
{
	_cleanup_(freep) struct server *server = calloc(1, sizeof(*server));
	int r;

	if (!server)
		return complain("Not enough memory");
	server->options = *options;
	server->options.patience_ms = PATIENCE_MS;
	server->listening.fd = -1;
	pthread_mutex_init(&server->lock, NULL);
	r = prepare(server) < 0 ? EXIT_FAILED : run(server);
	series_free(server->series);
	closep(&server->listening.fd);
	if (server->tls)
		explicit_bzero(server->tls, TLS_BYTES);
	free(server->tls);
	pthread_mutex_destroy(&server->lock);
	return r;
}
