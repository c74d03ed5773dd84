#include "harm.h"
const struct harm_case harm_filters[] = { { NULL, NULL } };
