/* array.h: arrays of fixed size. */
#ifndef TS_ARRAY_H
#define TS_ARRAY_H

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

#endif
