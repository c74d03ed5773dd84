/* Settings: one row for each. Secrets are read from files that nobody else may read. */
#include "client/ship/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/ship/tables.h"
#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "core/base/units.h"
#include "proto/paths.h"

#define AT(field)  offsetof(struct settings, field)
#define QUORUM_MAX 16

static const struct row {
	const char *key;
	size_t offset;
	const char *value; /* default */
	const char *text;  /* in lines */
} rows[] = {
	{ "url", AT(url), "",
	  "ClickHouse's HTTP interface, e.g. https://clickhouse1.example:8443. Several, separated\n"
	  "by spaces: replicas of one shard, of which the first that takes them gets the rows." },
	{ "database", AT(database), "tracesmith", "Its database, made by 'tsctl fleet init'." },
	{ "user", AT(user), "default", "Who inserts." },
	{ "password_file", AT(password_file), "",
	  "File with the user's password in its first line, mode 0600; none: no password." },
	{ "ca_file", AT(ca_file), "", "Certificates to trust, PEM; none: those of the system." },
	{ "certificate_file", AT(certificate_file), "",
	  "Certificate of this host, PEM, mode 0600, where the server asks for one." },
	{ "key_file", AT(key_file), "", "Its key, PEM, mode 0600; may be the same file." },
	{ "compression", AT(compression_name), "gzip", "How rows travel: gzip, zstd or none." },
	{ "quorum", AT(quorum_text), "0",
	  "Replicas that must have rows before they count as shipped; 0: the one that got them." },
	{ "host", AT(host), "", "Name of this host; none: as the kernel has it." },
	{ "socket", AT(socket), TS_PATH_CONTROL_SOCKET, "The daemon's control socket." },
	{ "windows", AT(windows_text), "no",
	  "Whether whoever may insert into the fleet's table 'request' gets single operations of\n"
	  "this host, of ten minutes at most and once a minute: yes or no." },
	{ "leave_out", AT(leave_out), "",
	  "What is not sent, by the names of the fleet's tables, separated by spaces: stack "
	  "rollup\n"
	  "work busy collective memory growth price incident loss." },
	{ "jobs", AT(jobs), SETTINGS_JOBS_ALL,
	  "Jobs whose processes are sent, separated by spaces. * stands for any text, ? for one\n"
	  "character, and - for the processes that belong to no job." },
};

struct reading {
	FILE *file;
	int line;
	bool given[ARRAY_SIZE(rows)];
	struct settings *settings;
	char *why;
	int error;
};

static char **place(struct settings *settings, const struct row *row)
{
	return (char **)((char *)settings + row->offset);
}

static int set(struct settings *settings, const struct row *row, const char *value)
{
	char *text = strdup(value);

	if (!text)
		return -ENOMEM;
	free(*place(settings, row));
	*place(settings, row) = text;
	return 0;
}

static bool is_list(const struct row *row)
{
	return row->offset == AT(url) || row->offset == AT(leave_out) || row->offset == AT(jobs);
}

/* A list may stand in several lines, of which the first takes the place of the default. */
static int set_or_add(struct reading *reading, const struct row *row, const char *value)
{
	_cleanup_(freep) char *both = NULL;
	bool *given = &reading->given[row - rows];

	if (!is_list(row) || !*given) {
		*given = true;
		return set(reading->settings, row, value);
	}
	if (asprintf(&both, "%s %s", *place(reading->settings, row), value) < 0) {
		both = NULL;
		return -ENOMEM;
	}
	return set(reading->settings, row, both);
}

static const struct row *find(const char *key)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (strcmp(rows[i].key, key) == 0)
			return &rows[i];
	return NULL;
}

static int on_setting(void *data, const char *section, const char *key, const char *value)
{
	struct reading *reading = data;

	if (reading->error)
		return 1;
	if (!*section && find(key)) {
		reading->error = set_or_add(reading, find(key), value);
		return 1;
	}
	reading->error = why_fail(reading->why, -EINVAL, "Unknown setting '%s%s%s'", section,
				  *section ? "." : "", key);
	return 1;
}

/* The parser takes what is too long for a line for the next one. */
static char *read_line(char *line, int size, void *data)
{
	struct reading *reading = data;
	char *got = fgets(line, size, reading->file);

	if (!got && ferror(reading->file))
		reading->error = why_fail(reading->why, -errno, "Cannot read the settings: %s",
					  strerror(errno));
	reading->line++;
	if (!got || strchr(line, '\n') || feof(reading->file))
		return got;
	why_fail(reading->why, -EINVAL,
		 "Line %d is longer than %d bytes: a list may stand in several lines, with a space "
		 "at the start of each but the first",
		 reading->line, size - 2);
	reading->error = -EINVAL;
	return NULL;
}

static int take_urls(struct settings *settings, char *why)
{
	char *rest = settings->url, *url;

	while ((url = strsep(&rest, " \t,"))) {
		const char *host = strstr(url, "://");
		size_t size = strlen(url);

		if (!size)
			continue;
		if ((strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0) ||
		    !host[3] || strchr("/:?", host[3]))
			return why_fail(why, -EINVAL,
					"url needs http:// or https:// and a host (got '%s')", url);
		if (strpbrk(host, "@?#"))
			return why_fail(
				why, -EINVAL,
				"url must not have a user or parameters: there are settings "
				"for them");
		if (settings->url_count == SETTINGS_URLS_MAX)
			return why_fail(why, -EINVAL, "url has more than %d servers",
					SETTINGS_URLS_MAX);
		if (url[size - 1] == '/')
			url[size - 1] = '\0';
		settings->urls[settings->url_count++] = url;
	}
	return settings->url_count ? 0
				   : why_fail(why, -EINVAL,
					      "Missing url: set the one of a "
					      "ClickHouse server");
}

static int take_compression(struct settings *settings, char *why)
{
	static const char *const names[] = { "none", "gzip", "zstd" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (strcmp(names[i], settings->compression_name) != 0)
			continue;
		settings->compression = (enum compression)i;
		return 0;
	}
	return why_fail(why, -EINVAL, "compression needs gzip, zstd or none (got '%s')",
			settings->compression_name);
}

/* systemd's credentials may have an access control list, whose mask stands where the group's mode
 * would: in their folder they are ours alone. */
static bool is_credential(const char *path)
{
	const char *folder = getenv("CREDENTIALS_DIRECTORY");
	size_t size = folder ? strlen(folder) : 0;

	return size && strncmp(path, folder, size) == 0 && path[size] == '/';
}

/* The text, up to SETTINGS_SECRET_MAX - 1 bytes, if `ret` is not NULL. */
static int read_secret(const char *path, const char *what, char *ret, char *why)
{
	_cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	ssize_t size;

	if (fd < 0 || fstat(fd, &st) < 0)
		return why_fail(why, -errno, "Cannot read the %s in %s: %s", what, path,
				strerror(errno));
	if (!S_ISREG(st.st_mode))
		return why_fail(why, -EINVAL, "%s is not a regular file", path);
	if (st.st_mode & 077 && !is_credential(path))
		return why_fail(why, -EPERM,
				"Others may use the %s in %s (mode %04o): chmod 0600 it", what,
				path, st.st_mode & 07777);
	if (!ret)
		return 0;
	size = read(fd, ret, SETTINGS_SECRET_MAX - 1);
	if (size < 0)
		return why_fail(why, -errno, "Cannot read the %s in %s: %s", what, path,
				strerror(errno));
	ret[size] = '\0';
	ret[strcspn(ret, "\r\n")] = '\0';
	return 0;
}

static int take_files(struct settings *settings, char *why)
{
	int r = 0;

	if (*settings->password_file)
		r = read_secret(settings->password_file, "password", settings->password, why);
	if (r == 0 && *settings->key_file)
		r = read_secret(settings->key_file, "key", NULL, why);
	if (r == 0 && !*settings->key_file != !*settings->certificate_file)
		r = why_fail(why, -EINVAL, "certificate_file and key_file need each other");
	if (r == 0 && *settings->certificate_file)
		r = read_secret(settings->certificate_file, "certificate", NULL, why);
	if (r == 0 && *settings->ca_file && access(settings->ca_file, R_OK) < 0)
		r = why_fail(why, -errno, "Cannot read the certificates in %s: %s",
			     settings->ca_file, strerror(errno));
	return r;
}

static int take_host(struct settings *settings, char *why)
{
	char name[HOST_NAME_MAX + 1] = "";

	if (*settings->host)
		return 0;
	if (gethostname(name, sizeof(name) - 1) < 0 || !*name)
		return why_fail(why, -EINVAL, "This host has no name: set host");
	free(settings->host);
	settings->host = strdup(name);
	return settings->host ? 0 : why_fail(why, -ENOMEM, "Not enough memory");
}

static int take_name(const struct settings *settings, char *why)
{
	const char *name = settings->database;

	if (!*name || name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
					"0123456789")])
		return why_fail(why, -EINVAL,
				"database needs a name of letters, digits and _ (got '%s')", name);
	return 0;
}

static int take_windows(struct settings *settings, char *why)
{
	settings->windows = strcmp(settings->windows_text, "yes") == 0;
	if (settings->windows || strcmp(settings->windows_text, "no") == 0)
		return 0;
	return why_fail(why, -EINVAL, "windows needs yes or no (got '%s')", settings->windows_text);
}

static int take_left_out(struct settings *settings, char *why)
{
	const char *name = settings->leave_out;
	int size;

	for (;; name += size) {
		const struct table *table;

		name += strspn(name, SETTINGS_SEPARATORS);
		size = (int)strcspn(name, SETTINGS_SEPARATORS);
		if (!size)
			return 0;
		table = tables_find(name, (size_t)size);
		if (!table || table->flags & TABLE_OPS)
			return why_fail(
				why, -EINVAL,
				"leave_out knows no '%.*s': see tracesmith-ship --print-config "
				"for what may be left out",
				size, name);
		if (table->flags & TABLE_NEEDED)
			return why_fail(
				why, -EINVAL,
				"leave_out cannot have %s: the other rows mean nothing without "
				"host, process, device and clock",
				table->name);
		settings->left_out |= tables_bit(table);
	}
}

static int take_jobs(const struct settings *settings, char *why)
{
	if (settings->jobs[strspn(settings->jobs, SETTINGS_SEPARATORS)])
		return 0;
	return why_fail(why, -EINVAL,
			"jobs needs a pattern: " SETTINGS_JOBS_ALL " for all of them");
}

int settings_read(const char *path, const char *socket, struct settings *ret, char why[WHY_BYTES])
{
	struct reading reading = { .settings = ret, .why = why };
	int line, r = 0;

	*ret = (struct settings){ 0 };
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(rows); i++)
		r = set(ret, &rows[i], rows[i].value);
	if (r < 0)
		return why_fail(why, r, "Not enough memory");
	reading.file = fopen(path, "re");
	if (!reading.file)
		return why_fail(why, -ENOENT, "Cannot read the settings in %s: %s", path,
				strerror(errno));
	line = ini_parse_stream(read_line, &reading, on_setting, &reading);
	fclose(reading.file);
	if (reading.error)
		return reading.error;
	if (line > 0)
		return why_fail(why, -EINVAL, "Line %d of %s is not a setting", line, path);
	if (socket && set(ret, find("socket"), socket) < 0)
		return why_fail(why, -ENOMEM, "Not enough memory");
	if (units_parse_count(ret->quorum_text, &ret->quorum) < 0 || ret->quorum > QUORUM_MAX)
		return why_fail(why, -EINVAL, "quorum needs a number from 0 to %d (got '%s')",
				QUORUM_MAX, ret->quorum_text);
	r = take_windows(ret, why);
	if (r == 0)
		r = take_left_out(ret, why);
	if (r == 0)
		r = take_jobs(ret, why);
	if (r == 0)
		r = take_urls(ret, why);
	if (r == 0)
		r = take_name(ret, why);
	if (r == 0)
		r = take_compression(ret, why);
	if (r == 0)
		r = take_host(ret, why);
	return r < 0 ? r : take_files(ret, why);
}

void settings_done(struct settings *settings)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		free(*place(settings, &rows[i]));
		*place(settings, &rows[i]) = NULL;
	}
	explicit_bzero(settings->password, sizeof(settings->password));
}

void settings_left_out(const struct settings *settings, char *ret, size_t size)
{
	size_t used = 0;

	ret[0] = '\0';
	for (size_t i = 0; i < tables_count && used < size; i++)
		if (settings->left_out & tables_bit(&tables[i]))
			used += (size_t)snprintf(ret + used, size - used, "%s%s", used ? " " : "",
						 tables[i].name);
}

void settings_print(FILE *out)
{
	fputs("# Settings of tracesmith-ship: see tracesmith-ship(8).\n", out);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const char *text = rows[i].text;

		fputc('\n', out);
		while (*text) {
			int size = (int)strcspn(text, "\n");

			fprintf(out, "# %.*s\n", size, text);
			text += size + (text[size] == '\n');
		}
		fprintf(out, "#%s =%s%s\n", rows[i].key, *rows[i].value ? " " : "", rows[i].value);
	}
}
