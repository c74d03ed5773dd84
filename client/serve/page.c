/* Page: the files of client/web, as the build embedded them. */
#include "client/serve/page.h"

#include <string.h>

#include "core/base/array.h"

struct page_type {
	const char *end, *type;
};

static const struct page_type types[] = {
	{ ".html", "text/html; charset=utf-8" },
	{ ".js", "text/javascript; charset=utf-8" },
	{ ".css", "text/css; charset=utf-8" },
};

static const struct {
	const char *name, *text;
	size_t size;
} files[] = {
#define PAGE_FILE(name, text) { name, text, sizeof(text) - 1 },
#include "client/serve/page_files.h"
#undef PAGE_FILE
};

static const char *type_of(const char *name)
{
	const char *end = strrchr(name, '.');

	for (size_t i = 0; end && i < ARRAY_SIZE(types); i++)
		if (strcmp(end, types[i].end) == 0)
			return types[i].type;
	return WEB_TEXT;
}

void page_file(const struct web_request *request, struct web_answer *answer)
{
	const char *name = *request->rest ? request->rest : "index.html";

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		if (strcmp(files[i].name, name) != 0)
			continue;
		*answer = (struct web_answer){
			.status = MHD_HTTP_OK,
			.type = type_of(name),
			.fixed = files[i].text,
			.size = files[i].size,
		};
		return;
	}
	web_say(answer, MHD_HTTP_NOT_FOUND, "There is nothing here: see / and /metrics");
}
