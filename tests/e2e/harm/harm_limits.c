#include "harm.h"
const struct harm_case harm_limits[] = { { NULL, NULL } };
