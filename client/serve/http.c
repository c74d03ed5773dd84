/* Http: finds the functions. */
#include "client/serve/http.h"

#include <dlfcn.h>

#include "client/base/complain.h"

#define LIBRARY "libmicrohttpd.so.12"

const struct http *http_load(void)
{
	static struct http http;
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

	if (!library) {
		complain("Serving needs " LIBRARY " (on Debian, apt install libmicrohttpd12): %s",
			 dlerror());
		return NULL;
	}
#define X(name)                                                                                    \
	*(void **)&http.name = dlsym(library, #name);                                              \
	if (!http.name) {                                                                          \
		complain("The " LIBRARY " of this system lacks the function " #name);              \
		return NULL;                                                                       \
	}
	HTTP_FUNCTIONS(X)
#undef X
	return &http;
}
