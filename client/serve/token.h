/* token.h: the secret that clients of the server must know. */
#ifndef TS_CLIENT_TOKEN_H
#define TS_CLIENT_TOKEN_H

#include <stdbool.h>

#define TOKEN_MIN 16
#define TOKEN_MAX 128

/* Reads it from the file, which is made if it is not there, or with NULL makes one up. Complains.
 */
int token_get(const char *path, char token[TOKEN_MAX + 1]);
/* Takes the same time for any wrong one of the same length. */
bool token_is(const char *token, const char *given);

#endif
