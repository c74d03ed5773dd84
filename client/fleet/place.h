/* place.h: where the fleet's server is: its URL with the user and the database, and the password.
 */
#ifndef TS_CLIENT_FLEET_PLACE_H
#define TS_CLIENT_FLEET_PLACE_H

#include "client/base/options.h"
#include "client/fleet/curl.h"

#define PLACE_URL_VARIABLE	"TRACESMITH_FLEET_URL"
#define PLACE_PASSWORD_VARIABLE "TRACESMITH_FLEET_PASSWORD_FILE"

struct place {
	char *base; /* the URL, without user and path */
	char *user, *database;
	char *password; /* NULL: none */
};

/* Of --url and --password-file, or else of the environment. A negative errno: it is printed. Free
 * it in any case. */
int place_find(const struct options *options, const struct curl_library *curl, struct place *ret);
void place_done(struct place *place);

#endif
