/* place.h: tells the BPF programs where they find the frames of a process's Python. */
#ifndef TS_PYTHON_PLACE_H
#define TS_PYTHON_PLACE_H

#include "bpf/probe.h"
#include "daemon/python/find.h"

/* All but started_ticks. -ENOENT: no thread has its state where the C library keeps what belongs to
 * a key; -EBADMSG: the interpreter's structures cannot be as it says. Else as peek_bytes. */
int place_find(const struct find *find, struct peek *peek, struct ts_python *ret);

#endif
