/* demangle.h: a symbol in readable form. */
#ifndef TS_DEMANGLE_H
#define TS_DEMANGLE_H

/* C++ and Rust (legacy) names are demangled, others are copied; without a symbol's version
 * (@GLIBC_2.2.5), valid UTF-8 without control characters, shorter than LIMIT_SYMBOL_NAME. The
 * caller frees it. NULL: no memory. */
char *demangle(const char *symbol);
/* The same, shorter than LIMIT_STORE_NAME and for names without versions. */
char *demangle_long(const char *symbol);

#endif
