/* Error: the names and sentences of the results. */
#include "fake.h"

static const struct {
	CUresult error;
	const char *name, *sentence;
} errors[] = {
#define ERR(name, value, sentence) { name, #name, sentence },
#include "errors.def"
#undef ERR
};

CUresult error_name(CUresult error, const char **name)
{
	if (!name)
		return CUDA_ERROR_INVALID_VALUE;
	*name = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(errors); i++)
		if (errors[i].error == error)
			*name = errors[i].name;
	return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult error_string(CUresult error, const char **sentence)
{
	if (!sentence)
		return CUDA_ERROR_INVALID_VALUE;
	*sentence = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(errors); i++)
		if (errors[i].error == error)
			*sentence = errors[i].sentence;
	return *sentence ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
