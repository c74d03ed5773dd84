/* frame_of.h: a frame of native code, in a line. */
#ifndef TS_TEST_FRAME_OF_H
#define TS_TEST_FRAME_OF_H

#include "core/model/frame.h"

#define FRAME(at, in, of, named)                                                                   \
	{                                                                                          \
		.address = (at), .offset = (in), .module = (of), .function = (named)               \
	}

#endif
