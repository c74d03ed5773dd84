/* find.h: finds the Python interpreter in a process. */
#ifndef TS_PYTHON_FIND_H
#define TS_PYTHON_FIND_H

#include <stdint.h>

#include "daemon/elf/elf.h"
#include "daemon/maps/record.h"
#include "daemon/python/layout.h"
#include "daemon/python/peek.h"

struct find {
	uint32_t version; /* as PY_VERSION_HEX; the micro version of 3.9 and 3.10 is 0 */
	uint64_t runtime; /* address of _PyRuntime */
	uint64_t code_type, text_type; /* and of PyCode_Type and PyUnicode_Type */
	struct layout layout;
};

/* The first that runs, of the program or of a library, by its dynamic symbols. -ENOENT: there is
 * none. -EAGAIN: it has not started, or has ended. -EOPNOTSUPP: of a version that is not supported
 * (ret->version, 0: before 3.9). -ENOTUNIQ: it has no GIL. Else as layout_find and peek_bytes. */
int find_python(uint32_t pid, struct peek *peek, struct find *ret);
/* What is added to a file's addresses where it is mapped. -ENOENT: the mapping is none of code. */
int find_bias(const struct elf *elf, const struct maps_record *record, uint64_t *ret);

#endif
