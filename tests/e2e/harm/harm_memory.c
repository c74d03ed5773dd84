#include "harm.h"
const struct harm_case harm_memory[] = { { NULL, NULL } };
