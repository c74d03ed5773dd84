/* Server: requests through libcurl, and ClickHouse's errors in a sentence. */
#include "client/fleet/server.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "client/base/complain.h"
#include "client/fleet/source.h"
#include "core/base/time.h"
#include "core/limits.h"

#define CONNECT_S    10L
#define HEADER_BYTES 1200
/* Of what a server says about an error; the rest is the statement once more. */
#define SAID_BYTES 400

/* ClickHouse's numbers of errors. */
enum {
	TIMEOUT_EXCEEDED = 159,
	UNKNOWN_USER = 192,
	WRONG_PASSWORD = 193,
	REQUIRED_PASSWORD = 194,
	AUTHENTICATION_FAILED = 516
};

static size_t take(char *bytes, size_t one, size_t count, void *data)
{
	struct server *server = data;
	char *more;

	if (server->answer_size + count > LIMIT_FLEET_ANSWER) {
		server->answer_long = true;
		return 0;
	}
	more = realloc(server->answer, server->answer_size + count + 1);
	if (!more)
		return 0;
	memcpy(more + server->answer_size, bytes, count);
	server->answer = more;
	server->answer_size += count;
	more[server->answer_size] = '\0';
	return count;
}

static int strange(const struct server *server)
{
	complain("The server at %s is not ClickHouse", server->place.base);
	return -EREMOTEIO;
}

/* "Code: 60, e.displayText() = DB::Exception: Table x.y doesn't exist., e.what() = …", or since
 * 20.5 "Code: 60. DB::Exception: Table x.y does not exist. (UNKNOWN_TABLE)". */
static int refused(struct server *server)
{
	static const char mark[] = "DB::Exception: ";
	char *text = server->answer ? server->answer : "", *end;
	int code = 0;

	if (sscanf(text, "Code: %d", &code) != 1)
		return strange(server);
	if (code == WRONG_PASSWORD || code == REQUIRED_PASSWORD || code == UNKNOWN_USER ||
	    code == AUTHENTICATION_FAILED) {
		complain("%s does not let '%s' in: %s", server->place.base, server->place.user,
			 server->place.password ? "wrong password, or unknown user"
						: "it wants a password (--password-file)");
		return -EACCES;
	}
	if (strstr(text, mark))
		text = strstr(text, mark) + sizeof(mark) - 1;
	end = strstr(text, ", e.what() =");
	if (end)
		*end = '\0';
	text[strcspn(text, "\n")] = '\0';
	complain("%s: %.*s%s", server->place.base, SAID_BYTES, text,
		 strlen(text) > SAID_BYTES ? "…" : "");
	return code == TIMEOUT_EXCEEDED ? -ETIMEDOUT : -EREMOTEIO;
}

/* The answer ended early, or none came. */
static int lost(const struct server *server, CURLcode code, const char *error)
{
	if (server->answer_long)
		complain("The answer is longer than %d MiB: ask for less",
			 LIMIT_FLEET_ANSWER >> 20);
	else
		complain("No ClickHouse server answers at %s: %s", server->place.base,
			 *error ? error : server->curl->easy_strerror(code));
	return -EIO;
}

static char *url_of(const struct server *server)
{
	char *url;

	if (asprintf(&url,
		     "%s/?default_format=TabSeparatedWithNamesAndTypes&wait_end_of_query=1%s%s%s",
		     server->place.base, server->database_used ? "&database=" : "",
		     server->database_used ? server->place.database : "",
		     server->settings ? server->settings : "") < 0)
		return NULL;
	return url;
}

static int perform(struct server *server, const char *url, struct curl_slist *headers,
		   const char *statement)
{
	const struct curl_library *curl = server->curl;
	char error[CURL_ERROR_SIZE] = "";
	CURLcode code;
	long status = 0;

	curl->easy_setopt(server->handle, CURLOPT_URL, url);
	curl->easy_setopt(server->handle, CURLOPT_HTTPHEADER, headers);
	curl->easy_setopt(server->handle, CURLOPT_ERRORBUFFER, error);
	curl->easy_setopt(server->handle, CURLOPT_POSTFIELDSIZE_LARGE,
			  (curl_off_t)strlen(statement));
	curl->easy_setopt(server->handle, CURLOPT_POSTFIELDS, statement);
	code = curl->easy_perform(server->handle);
	curl->easy_setopt(server->handle, CURLOPT_ERRORBUFFER, NULL);
	if (code != CURLE_OK)
		return lost(server, code, error);
	curl->easy_getinfo(server->handle, CURLINFO_RESPONSE_CODE, &status);
	return status == 200 ? 0 : refused(server);
}

static int add_header(const struct server *server, struct curl_slist **list, const char *name,
		      const char *value)
{
	char line[HEADER_BYTES];
	struct curl_slist *more;

	snprintf(line, sizeof(line), "%s: %s", name, value);
	more = server->curl->slist_append(*list, line);
	explicit_bzero(line, sizeof(line));
	if (!more)
		return -ENOMEM;
	*list = more;
	return 0;
}

int server_ask(struct server *server, const char *statement)
{
	_cleanup_(freep) char *url = url_of(server);
	struct curl_slist *headers = NULL;
	int r = url ? add_header(server, &headers, "X-ClickHouse-User", server->place.user)
		    : -ENOMEM;

	free(server->answer);
	server->answer = NULL;
	server->answer_size = 0;
	if (r == 0 && server->place.password)
		r = add_header(server, &headers, "X-ClickHouse-Key", server->place.password);
	if (r == 0)
		r = add_header(server, &headers, "Content-Type", "text/plain");
	if (r == 0)
		r = perform(server, url, headers, statement);
	else
		complain_memory();
	server->curl->slist_free_all(headers);
	return r;
}

static int ask_version(struct server *server)
{
	unsigned major, minor;
	const char *line;
	int r = server_ask(server, source_query("server-version"));

	if (r < 0)
		return r;
	line = server->answer ? strchr(server->answer, '\n') : NULL;
	line = line ? strchr(line + 1, '\n') : NULL;
	if (!line || sscanf(line + 1, "%u.%u", &major, &minor) != 2)
		return strange(server);
	server->number = major * 1000 + minor;
	server->version = strndup(line + 1, strcspn(line + 1, "\t\n"));
	return server->version ? 0 : -ENOMEM;
}

int server_open(const struct options *options, struct server **ret)
{
	_cleanup_(server_freep) struct server *server = calloc(1, sizeof(*server));
	uint64_t timeout_ns = options->timeout_ns;
	int r;

	if (!server)
		return -ENOMEM;
	server->curl = curl_load();
	if (!server->curl)
		return -ENOPKG;
	r = place_find(options, server->curl, &server->place);
	if (r < 0)
		return r;
	server->handle = server->curl->easy_init();
	if (!server->handle)
		return -ENOMEM;
	server->curl->easy_setopt(server->handle, CURLOPT_NOSIGNAL, 1L);
	server->curl->easy_setopt(server->handle, CURLOPT_PROTOCOLS_STR, "http,https");
	server->curl->easy_setopt(server->handle, CURLOPT_CONNECTTIMEOUT, CONNECT_S);
	server->curl->easy_setopt(server->handle, CURLOPT_WRITEFUNCTION, take);
	server->curl->easy_setopt(server->handle, CURLOPT_WRITEDATA, server);
	server->curl->easy_setopt(server->handle, CURLOPT_USERAGENT, "tsctl/" TS_VERSION);
	if (options->given & OPTION(TIMEOUT))
		server->curl->easy_setopt(server->handle, CURLOPT_TIMEOUT_MS,
					  (long)(timeout_ns / (uint64_t)NS_PER_MS) + 1);
	r = ask_version(server);
	if (r < 0)
		return r;
	*ret = TAKE(server);
	return 0;
}

struct server *server_free(struct server *server)
{
	if (!server)
		return NULL;
	if (server->handle)
		server->curl->easy_cleanup(server->handle);
	place_done(&server->place);
	free(server->version);
	free(server->answer);
	free(server);
	return NULL;
}
