/* utf8.h: text from other processes may be any bytes; it is read as UTF-8, with U+FFFD for invalid
 * bytes. */
#ifndef TS_UTF8_H
#define TS_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UTF8_REPLACEMENT 0xfffd
#define UTF8_LENGTH_MAX	 4

/* Reads one code point of text[0..size), size > 0, and returns how many bytes it took. Invalid
 * bytes (also overlong forms and surrogates) are read one by one as U+FFFD. */
size_t utf8_read(const char *text, size_t size, uint32_t *ret_code);
/* Returns the length of what it wrote. */
size_t utf8_write(char text[UTF8_LENGTH_MAX], uint32_t code);

bool utf8_valid(const char *text, size_t size);
/* Writes `text` as valid UTF-8 and a NUL; `out` has room for 3 * size + 1. Returns its length. */
size_t utf8_clean(char *out, const char *text, size_t size);
/* What steers a terminal or a reader instead of being seen: C0, DEL, C1, separators of lines and
 * paragraphs, and text direction, which makes the text around it look like another. */
bool utf8_is_control(uint32_t code);
/* Valid, and without control characters. */
bool utf8_is_visible(const char *text, size_t size);
/* As utf8_clean(), and control characters become U+FFFD, so that it is safe on a terminal. */
size_t utf8_visible(char *out, const char *text, size_t size);

#endif
