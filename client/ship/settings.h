/* settings.h: the shipper's settings file, checked before anything else is done. */
#ifndef TS_CLIENT_SHIP_SETTINGS_H
#define TS_CLIENT_SHIP_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "client/ship/why.h"

#define SETTINGS_PATH	    "/etc/tracesmith/ship.conf"
#define SETTINGS_URLS_MAX   16
#define SETTINGS_SECRET_MAX 1024
#define SETTINGS_LINE_BYTES 200 /* of the file, as its parser has it */
#define SETTINGS_SEPARATORS " \t,|"
#define SETTINGS_JOBS_ALL   "*"
/* Of single operations that are sent at once. */
#define SETTINGS_WINDOW_MAX_S 600

enum compression { COMPRESSION_NONE, COMPRESSION_GZIP, COMPRESSION_ZSTD };

struct settings {
	char *url, *database, *user, *password_file;
	char *ca_file, *certificate_file, *key_file;
	char *host, *socket, *compression_name, *quorum_text, *windows_text;
	char *leave_out, *jobs; /* lists */
	/* Made of these: */
	char *urls[SETTINGS_URLS_MAX]; /* without a slash at the end */
	size_t url_count;
	char password[SETTINGS_SECRET_MAX];
	enum compression compression;
	uint64_t quorum;
	bool windows;	   /* the fleet may ask for them */
	uint32_t left_out; /* bits: of each of `tables` whether it is */
};

/* Reads the file, and the files that it names; `socket`: instead of its own, NULL: none. -EINVAL
 * and others: `why` says what is wrong. Free it in any case. */
int settings_read(const char *path, const char *socket, struct settings *ret, char why[WHY_BYTES]);
void settings_done(struct settings *settings);
/* The names of the tables that are left out, with spaces between. */
void settings_left_out(const struct settings *settings, char *ret, size_t size);
/* A file with all settings and their defaults. */
void settings_print(FILE *out);

#endif
