/* raster.h: a picture as PNG. librsvg draws it, which is loaded when it is needed. */
#ifndef TS_CLIENT_REPORT_RASTER_H
#define TS_CLIENT_REPORT_RASTER_H

#include <stdbool.h>
#include <stddef.h>

/* Whether the name of a file asks for it. */
bool raster_is_wanted(const char *path);
/* The library is there; else a negative errno, and it is complained of. */
int raster_check(void);
/* Of an SVG of ours with a viewBox; `ret` is to be freed. A negative errno: it is printed. */
int raster_png(const char *svg, char **ret, size_t *ret_size);

/* The same with the colours of the style in place of its variables, which librsvg does not know: of
 * the first that are defined, for a light page. NULL: no memory. Pure. */
char *raster_plain(const char *svg, size_t *ret_size);

#endif
