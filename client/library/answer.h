/* answer.h: the rows of one answer, taken from replies as they come. */
#ifndef TS_CLIENT_ANSWER_H
#define TS_CLIENT_ANSWER_H

#include "client/library/client.h"
#include "client/library/connection.h"

#define EXPORT __attribute__((visibility("default")))

/* Of the replies of one answer, packed: more than any query has, and less than would harm a program
 * that meets a server that never ends. */
#define ANSWER_BYTES_MAX (256u << 20)

struct tracesmith_answer *answer_new(void);

/* Takes a reply of columns, rows or done, also if it fails. 1: it was the last one. -EPROTO: it
 * does not fit to the others; -E2BIG: ANSWER_BYTES_MAX; -ENOMEM. */
int answer_take(struct tracesmith_answer *answer, Tracesmith__V1__Reply *reply);

/* The value as received; tsctl formats it itself. NULL: no such row or column, or the answer has
 * not ended. */
const Tracesmith__V1__Value *answer_value(const struct tracesmith_answer *answer, size_t row,
					  size_t column);
const Tracesmith__V1__Done *answer_end(const struct tracesmith_answer *answer);

/* A table of messages, whose fields are its columns: also those of messages in them that are not
 * repeated. `key`: a column before the others, with the number of each row; NULL: none. */
struct answer_key {
	const char *name;
	const uint32_t *value;
};
int answer_of_messages(const ProtobufCMessageDescriptor *descriptor,
		       const ProtobufCMessage *const *message, size_t count,
		       const struct answer_key *key, struct tracesmith_answer **ret);

static inline void answer_freep(struct tracesmith_answer **answer)
{
	tracesmith_answer_free(*answer);
}

#endif
