/* Curl: finds the functions. */
#include "client/fleet/curl.h"

#include <dlfcn.h>

#include "client/base/complain.h"

#define LIBRARY "libcurl.so.4"

const struct curl_library *curl_load(void)
{
	static struct curl_library curl;
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

	if (!library) {
		complain("Asking a fleet needs " LIBRARY " (on Debian, apt install libcurl4): %s",
			 dlerror());
		return NULL;
	}
#define X(type, name, ...)                                                                         \
	*(void **)&curl.name = dlsym(library, "curl_" #name);                                      \
	if (!curl.name) {                                                                          \
		complain("The " LIBRARY " of this system lacks the function curl_" #name);         \
		return NULL;                                                                       \
	}
	CURL_FUNCTIONS(X)
#undef X
	return &curl;
}
