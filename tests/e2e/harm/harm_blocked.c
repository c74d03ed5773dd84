#include "harm.h"
const struct harm_case harm_blocked[] = { { NULL, NULL } };
