/* glob.h: finds a pattern in a text. '*' stands for any text, '?' for one character, and '|' is
 * between patterns of which one must be found, anywhere in the text.
 *
 * Not a regular expression: whoever gives one to regcomp() can take all memory and time of a
 * process (client/output/pattern.h), and the daemon matches for others. This takes no memory, and
 * time in proportion to the product of both lengths at most.
 */
#ifndef TS_GLOB_H
#define TS_GLOB_H

#include <stdbool.h>

bool glob_find(const char *pattern, const char *text);

#endif
