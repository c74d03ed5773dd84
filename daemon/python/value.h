/* value.h: what a variable holds, in a few words. */
#ifndef TS_PYTHON_VALUE_H
#define TS_PYTHON_VALUE_H

#include "daemon/python/text.h"

#define VALUE_SIZE (TEXT_SIZE + 2)

/* Numbers, strings, True, False and None as Python writes them; of others their type, and how many
 * items they have: "list of 3", "<Tensor>". Runs no code of the process. As peek_bytes; -EBADMSG:
 * it is no object. */
int value_text(const struct text_source *source, uint64_t object, char ret[VALUE_SIZE]);

#endif
