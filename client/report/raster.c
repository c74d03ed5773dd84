/* Raster: at twice the size that it has on a page. */
#include "client/report/raster.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/complain.h"
#include "core/base/cleanup.h"
#include "core/base/text.h"

#define LIBRARY	     "librsvg-2.so.2"
#define PACKAGE	     "librsvg2-2"
#define SCALE	     2
#define SIDE_MAX     16000
#define FORMAT_RGB24 1 /* CAIRO_FORMAT_RGB24 */

struct rectangle { /* RsvgRectangle */
	double x, y, width, height;
};
typedef int write_fn(void *data, const unsigned char *bytes, unsigned int size);

/* Of librsvg, and of what it brings with it. Errors are not asked for: they are of our own SVG. */
#define RASTER_FUNCTIONS(X)                                                                        \
	X(void *, rsvg_handle_new_from_data, const uint8_t *, size_t, void **)                     \
	X(int, rsvg_handle_render_document, void *, void *, const struct rectangle *, void **)     \
	X(void, g_object_unref, void *)                                                            \
	X(void *, cairo_image_surface_create, int, int, int)                                       \
	X(void, cairo_surface_destroy, void *)                                                     \
	X(int, cairo_surface_write_to_png_stream, void *, write_fn *, void *)                      \
	X(void *, cairo_create, void *)                                                            \
	X(int, cairo_status, void *)                                                               \
	X(void, cairo_destroy, void *)

static struct {
#define X(type, name, ...) type (*name)(__VA_ARGS__);
	RASTER_FUNCTIONS(X)
#undef X
} lib;

bool raster_is_wanted(const char *path)
{
	size_t length = strlen(path);

	return length > 4 && strcmp(path + length - 4, ".png") == 0;
}

int raster_check(void)
{
	static void *library; /* it stays */

	if (!library)
		library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		complain("A PNG needs " LIBRARY " (on Debian, apt install " PACKAGE
			 "), or give -o FILE.svg: %s",
			 dlerror());
		return -ENOPKG;
	}
#define X(type, name, ...)                                                                         \
	*(void **)&lib.name = dlsym(library, #name);                                               \
	if (!lib.name) {                                                                           \
		complain("The " LIBRARY " of this system lacks the function " #name                \
			 ": give -o FILE.svg");                                                    \
		return -ENOPKG;                                                                    \
	}
	RASTER_FUNCTIONS(X)
#undef X
	return 0;
}

/* Of a variable, its first definition: up to the ';'. */
static const char *value_of(const char *svg, const char *name, size_t length, size_t *ret_length)
{
	for (const char *at = strstr(svg, name); at; at = strstr(at + 1, name)) {
		if (strncmp(at, name, length) != 0 || at[length] != ':')
			continue;
		at += length + 1;
		at += strspn(at, " ");
		*ret_length = strcspn(at, ";}<");
		return at;
	}
	return NULL;
}

char *raster_plain(const char *svg, size_t *ret_size)
{
	char *text = NULL;
	FILE *out = text_open(&text, ret_size);
	const char *at = svg, *next;

	if (!out)
		return NULL;
	for (; (next = strstr(at, "var(--")); at = next) {
		char name[32];
		size_t length = strcspn(next + 4, ")"), value_length = 0;
		const char *value = NULL;

		fwrite(at, 1, (size_t)(next - at), out);
		if (length < sizeof(name)) {
			snprintf(name, sizeof(name), "%.*s", (int)length, next + 4);
			value = value_of(svg, name, length, &value_length);
		}
		if (value)
			fwrite(value, 1, value_length, out);
		next += 4 + length + (next[4 + length] == ')');
	}
	fputs(at, out);
	if (text_close(out) == 0)
		return text;
	free(text);
	return NULL;
}

static int write_bytes(void *data, const unsigned char *bytes, unsigned int size)
{
	return fwrite(bytes, 1, size, data) == size ? 0 : 11; /* CAIRO_STATUS_WRITE_ERROR */
}

static bool draw(const char *svg, size_t size, int width, int height, FILE *out)
{
	const struct rectangle all = { 0, 0, width, height };
	void *handle = lib.rsvg_handle_new_from_data((const uint8_t *)svg, size, NULL);
	void *surface = lib.cairo_image_surface_create(FORMAT_RGB24, width, height);
	void *context = lib.cairo_create(surface);
	bool drawn = handle && lib.rsvg_handle_render_document(handle, context, &all, NULL) &&
		     lib.cairo_status(context) == 0 &&
		     lib.cairo_surface_write_to_png_stream(surface, write_bytes, out) == 0;

	lib.cairo_destroy(context);
	lib.cairo_surface_destroy(surface);
	if (handle)
		lib.g_object_unref(handle);
	return drawn;
}

int raster_png(const char *svg, char **ret, size_t *ret_size)
{
	_cleanup_(freep) char *plain = NULL, *text = NULL;
	const char *box = strstr(svg, "viewBox=\"0 0 ");
	double width = 0, height = 0;
	size_t size = 0;
	bool drawn;
	FILE *out;
	int r = raster_check();

	if (r < 0)
		return r;
	plain = raster_plain(svg, &size);
	out = plain ? text_open(&text, ret_size) : NULL;
	if (!out) {
		complain_memory();
		return -ENOMEM;
	}
	drawn = box && sscanf(box, "viewBox=\"0 0 %lf %lf", &width, &height) == 2 && width >= 1 &&
		height >= 1 && width * SCALE < SIDE_MAX && height * SCALE < SIDE_MAX &&
		draw(plain, size, (int)(width * SCALE), (int)(height * SCALE), out);
	if (text_close(out) < 0 || !drawn) {
		complain("librsvg cannot draw the picture: give -o FILE.svg");
		return -EIO;
	}
	*ret = TAKE(text);
	return 0;
}
