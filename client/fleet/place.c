/* Place: the URL is taken apart by libcurl, the password read from a file that nobody else can
 * read. */
#include "client/fleet/place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/base/complain.h"
#include "core/base/cleanup.h"

#define DATABASE	"tracesmith"
#define USER		"default"
#define NAME_MAX_LEN	64
#define PASSWORD_MAX	1024
#define NAME_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

static const char *given(const char *option, const char *variable)
{
	const char *text = option ? option : getenv(variable);

	return text && *text ? text : NULL;
}

/* A part of the URL, to be freed; NULL: it has none, or no memory. */
static char *part(const struct curl_library *curl, const CURLU *url, CURLUPart which)
{
	char *text = NULL, *copy;

	if (curl->url_get(url, which, &text, CURLU_URLDECODE) != CURLUE_OK)
		return NULL;
	copy = strdup(text);
	curl->free(text);
	return copy;
}

static int refuse(const char *url)
{
	complain("'%s' is not the URL of a server: give http://HOST:8123, or "
		 "https://USER@HOST:8443/DATABASE",
		 url);
	return -EINVAL;
}

static int set_base(struct place *place, const struct curl_library *curl, const CURLU *url)
{
	_cleanup_(freep) char *scheme = part(curl, url, CURLUPART_SCHEME);
	_cleanup_(freep) char *host = part(curl, url, CURLUPART_HOST);
	_cleanup_(freep) char *port = part(curl, url, CURLUPART_PORT);
	_cleanup_(freep) char *query = part(curl, url, CURLUPART_QUERY);

	if (!scheme || !host || !*host || query ||
	    (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0))
		return -EINVAL;
	if (asprintf(&place->base, "%s://%s%s%s", scheme, host, port ? ":" : "", port ? port : "") <
	    0) {
		place->base = NULL;
		return -ENOMEM;
	}
	return 0;
}

static int set_names(struct place *place, const struct curl_library *curl, const CURLU *url)
{
	_cleanup_(freep) char *path = part(curl, url, CURLUPART_PATH);
	_cleanup_(freep) char *password = part(curl, url, CURLUPART_PASSWORD);
	const char *database = path && path[0] && path[1] ? path + 1 : DATABASE;
	size_t length = strlen(database);

	if (password) {
		complain("A password in a URL is seen by everybody on the host: put it in a file, "
			 "and "
			 "give --password-file");
		return -EINVAL;
	}
	if (length > NAME_MAX_LEN || strspn(database, NAME_CHARACTERS) != length) {
		complain("'%s' is not a name for the database: take letters, digits and _, at most "
			 "%d",
			 database, NAME_MAX_LEN);
		return -EINVAL;
	}
	place->user = part(curl, url, CURLUPART_USER);
	if (!place->user)
		place->user = strdup(USER);
	place->database = strdup(database);
	return place->user && place->database ? 0 : -ENOMEM;
}

static int read_url(struct place *place, const struct curl_library *curl, const char *text)
{
	CURLU *url = curl->url();
	int r = url ? 0 : -ENOMEM;

	if (r == 0 && curl->url_set(url, CURLUPART_URL, text, 0) != CURLUE_OK)
		r = refuse(text);
	if (r == 0) {
		r = set_base(place, curl, url);
		if (r == -EINVAL)
			refuse(text);
	}
	if (r == 0)
		r = set_names(place, curl, url);
	curl->url_cleanup(url);
	if (r == -ENOMEM)
		complain_memory();
	return r;
}

static int check_file(const char *path, int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		complain("'%s' is not a file: the password must be in one", path);
		return -EINVAL;
	}
	if (st.st_mode & 077) {
		complain("Others can read the password in '%s': chmod 600 it", path);
		return -EPERM;
	}
	return 0;
}

/* The file's first line. */
static int read_password(struct place *place, const char *path)
{
	_cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char text[PASSWORD_MAX + 2];
	ssize_t size;
	int r;

	if (fd < 0) {
		complain("Cannot read '%s': %s", path, strerror(errno));
		return -EIO;
	}
	r = check_file(path, fd);
	if (r < 0)
		return r;
	size = read(fd, text, sizeof(text) - 1);
	if (size < 0) {
		complain("Cannot read '%s': %s", path, strerror(errno));
		return -EIO;
	}
	text[size] = '\0';
	text[strcspn(text, "\r\n")] = '\0';
	if (strlen(text) > PASSWORD_MAX) {
		complain("The first line of '%s' is longer than any password", path);
		return -EINVAL;
	}
	place->password = strdup(text);
	explicit_bzero(text, sizeof(text));
	return place->password ? 0 : -ENOMEM;
}

int place_find(const struct options *options, const struct curl_library *curl, struct place *ret)
{
	const char *url = given(options->url, PLACE_URL_VARIABLE);
	const char *path = given(options->password_file, PLACE_PASSWORD_VARIABLE);
	int r;

	if (!url) {
		complain("Missing server: give --url, or set " PLACE_URL_VARIABLE);
		return -EINVAL;
	}
	r = read_url(ret, curl, url);
	return r < 0 || !path ? r : read_password(ret, path);
}

void place_done(struct place *place)
{
	if (place->password)
		explicit_bzero(place->password, strlen(place->password));
	free(place->base);
	free(place->user);
	free(place->password);
	free(place->database);
	*place = (struct place){ 0 };
}
