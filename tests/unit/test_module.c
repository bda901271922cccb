/* A module that is missing, that is not ours, or that finds no driver: one sentence, the right
 * error code, and no output is changed. */
#include <unistd.h>

#include "kernels/module.h"
#include "tests/support/unit.h"

static void assert_one_sentence(const struct sl_fail *fail)
{
	assert_true(strlen(fail->text) > 20);
	assert_null(strchr(fail->text, '\n'));
}

static void test_missing(void **state)
{
	struct sl_backend be = {.impl = &be};
	struct sl_fail fail = {0};

	assert_int_equal(sl_module_open("/nonexistent/libsplit_cuda.so", &be, 0, &fail), SL_ERR_UNAVAILABLE);
	assert_int_equal(fail.code, SL_ERR_UNAVAILABLE);
	assert_non_null(strstr(fail.text, "/nonexistent/libsplit_cuda.so"));
	assert_one_sentence(&fail);
	assert_ptr_equal(be.impl, &be);
	assert_null(be.ops);
}

static void test_other_library(void **state)
{
	struct sl_backend be = {0};
	struct sl_fail fail = {0};

	assert_int_equal(sl_module_open("libm.so.6", &be, 0, &fail), SL_ERR_UNAVAILABLE);
	assert_non_null(strstr(fail.text, "sl_cuda_module"));
	assert_null(be.ops);
}

/* The path of the CUDA module; NULL if `make cuda` has not built one. */
static const char *built_module(char path[4096])
{
	const char *build = getenv("BUILD");

	snprintf(path, 4096, "%s/libsplit_cuda.so", build ? build : "build/release");
	if (path[0] != '/' && access(path, R_OK) == 0) { /* absolute: a name without a slash would be searched for */
		char folder[2048];

		if (getcwd(folder, sizeof(folder)) && strlen(folder) + strlen(path) + 2 < 4096) {
			memmove(path + strlen(folder) + 1, path, strlen(path) + 1);
			memcpy(path, folder, strlen(folder));
			path[strlen(folder)] = '/';
		}
	}
	return access(path, R_OK) == 0 ? path : NULL;
}

/* With a driver the device opens and closes; without one every entry point reports that. Nothing
 * crashes either way, and a device that does not exist is refused. */
static void test_built(void **state)
{
	const struct sl_module *module = NULL;
	struct sl_fail fail = {0};
	struct sl_backend be = {.impl = &be};
	char path[4096], text[SL_MODULE_TEXT] = "untouched";
	const char *built = built_module(path);

	if (!built) {
		print_message("no CUDA module is built here\n");
		skip();
	}
	assert_int_equal(sl_module_load(built, &module, &fail), SL_OK);
	assert_int_equal(module->abi, SL_MODULE_ABI);
	assert_int_equal(sl_module_open(built, &be, 4711, &fail), SL_ERR_UNAVAILABLE);
	assert_one_sentence(&fail);
	assert_ptr_equal(be.impl, &be);
	if (module->describe(0, text, &fail) == SL_OK) {
		be = (struct sl_backend){0};
		print_message("%s\n", text);
		assert_int_equal(sl_module_open(built, &be, 0, &fail), SL_OK);
		assert_string_equal(be.ops->name, "cuda");
		be.ops->close(&be);
		assert_null(be.ops);
		return;
	}
	assert_int_equal(fail.code, SL_ERR_UNAVAILABLE);
	assert_one_sentence(&fail);
	print_message("%s\n", fail.text);
	assert_string_equal(text, "untouched");
	assert_int_equal(sl_module_open(built, &be, 0, &fail), SL_ERR_UNAVAILABLE);
	assert_ptr_equal(be.impl, &be);
	assert_null(be.ops);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_missing),
		cmocka_unit_test(test_other_library),
		cmocka_unit_test(test_built),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
