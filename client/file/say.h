/* say.h: tsctl's words for remarks about a recording. */
#ifndef TS_CLIENT_SAY_H
#define TS_CLIENT_SAY_H

#include "core/store/file/remark.h"

/* Prints it; `data` is the path (file_remark_fn). */
void say_remark(void *data, const struct file_remark *remark);

#endif
