/* tsv.h: reads a server's answer: lines of columns with tabs between them, of which the first two
 * are names and types. The text is changed: what is read points into it. */
#ifndef TS_CLIENT_FLEET_TSV_H
#define TS_CLIENT_FLEET_TSV_H

#include <stddef.h>

#define TSV_COLUMNS_MAX 256

struct tsv {
	char *at;
	size_t columns;
	char *name[TSV_COLUMNS_MAX];
	char *type[TSV_COLUMNS_MAX];
	char *cell[TSV_COLUMNS_MAX]; /* of this row; NULL: NULL */
};

/* -EPROTO: `text`, which may be NULL, is not in this format. */
int tsv_open(struct tsv *tsv, char *text);
/* 1: a row; 0: there is none any more; -EPROTO: it has other columns. */
int tsv_next(struct tsv *tsv);

#endif
