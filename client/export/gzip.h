/* gzip.h: compresses the output to a sink as gzip (RFC 1952). */
#ifndef TS_CLIENT_GZIP_H
#define TS_CLIENT_GZIP_H

#include "client/output/out.h"

struct gzip;

int gzip_new(const struct out_sink *sink, struct gzip **ret);
struct gzip *gzip_free(struct gzip *gzip);
struct out_sink gzip_sink(struct gzip *gzip);
/* Nothing may be written afterwards. */
int gzip_end(struct gzip *gzip);

CLEANUP_DEFINE(struct gzip, gzip_free)

#endif
