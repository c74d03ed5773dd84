/* curl.h: the functions of libcurl that reaching a server takes, from the library where it is
 * installed: nothing else of tsctl needs it. */
#ifndef TS_CLIENT_FLEET_CURL_H
#define TS_CLIENT_FLEET_CURL_H

#include <curl/curl.h>

/* Without the curl_ of their names. */
#define CURL_FUNCTIONS(X)                                                                          \
	X(CURL *, easy_init, void)                                                                 \
	X(CURLcode, easy_setopt, CURL *, CURLoption, ...)                                          \
	X(CURLcode, easy_perform, CURL *)                                                          \
	X(CURLcode, easy_getinfo, CURL *, CURLINFO, ...)                                           \
	X(void, easy_cleanup, CURL *)                                                              \
	X(const char *, easy_strerror, CURLcode)                                                   \
	X(struct curl_slist *, slist_append, struct curl_slist *, const char *)                    \
	X(void, slist_free_all, struct curl_slist *)                                               \
	X(CURLU *, url, void)                                                                      \
	X(void, url_cleanup, CURLU *)                                                              \
	X(CURLUcode, url_get, const CURLU *, CURLUPart, char **, unsigned)                         \
	X(CURLUcode, url_set, CURLU *, CURLUPart, const char *, unsigned)                          \
	X(void, free, void *)

struct curl_library {
#define X(type, name, ...) type (*name)(__VA_ARGS__);
	CURL_FUNCTIONS(X)
#undef X
};

/* NULL: it is printed why. */
const struct curl_library *curl_load(void);

#endif
